package refit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// Options are what Judge needs beside the rows.
type Options struct {
	LLM      string
	At       time.Time // creation time of the bundles
	Load     string    // name of the load of the cases
	Seed     uint64    // of the random split and of the bootstrap
	Settings learn.Settings
}

const (
	// HeldOut is the share of the rows that judges.
	HeldOut = 0.2
	// LeastRows is how many rows must be learned from, and a fifth of it judge.
	LeastRows = 200
)

// Judge fits a bundle to the first 80 % of the rows and judges it on the
// others, then the same with a random 80 %. Rows are in order of time. The
// series are the prior of the vectors, the bundle as it was fitted, and the
// same corrected online. An error says which rows are too few, or wraps
// learn.ErrUnfitted.
func Judge(ctx context.Context, rows []Row, o Options) ([]evaluate.Report, error) {
	samples := make([]learn.Sample, len(rows))
	for i := range rows {
		samples[i] = rows[i].Sample
	}
	learned, judges := learn.Split(samples, HeldOut)
	byTime, err := o.split(ctx, evaluate.ByTime, learned, rows[len(rows)-len(judges):])
	if err != nil {
		return nil, err
	}
	learned, judging := o.draw(rows)
	atRandom, err := o.split(ctx, evaluate.AtRandom, learned, judging)
	if err != nil {
		return nil, err
	}
	return []evaluate.Report{byTime, atRandom}, nil
}

// draw splits the rows at random; both parts stay in order of time.
func (o *Options) draw(rows []Row) (learned []learn.Sample, judging []Row) {
	rng := rand.New(rand.NewPCG(o.Seed, 2))
	judges := make([]bool, len(rows))
	for _, i := range rng.Perm(len(rows))[:int(HeldOut*float64(len(rows)))] {
		judges[i] = true
	}
	for i := range rows {
		if judges[i] {
			judging = append(judging, rows[i])
		} else {
			learned = append(learned, rows[i].Sample)
		}
	}
	return learned, judging
}

func (o *Options) split(ctx context.Context, name string, learned []learn.Sample, judging []Row) (evaluate.Report, error) {
	if len(learned) < LeastRows || len(judging) < LeastRows/5 {
		return evaluate.Report{}, fmt.Errorf("%d rows to learn from and %d to judge by: want at least %d and %d", len(learned), len(judging), LeastRows, LeastRows/5)
	}
	task := learn.Task{LLM: o.LLM, At: o.At, Samples: learned}
	for target := range bundle.Targets {
		known := 0
		for i := range learned {
			if y := learned[i].Label(target); y == y {
				known++
			}
		}
		task.Learned[target] = known >= LeastRows/2
	}
	b, err := learn.Fit(ctx, task, o.Settings)
	if err != nil {
		return evaluate.Report{}, err
	}
	e, err := b.Evaluator()
	if err != nil {
		return evaluate.Report{}, err
	}
	f := evaluate.NewForecasts(evaluate.Options{Split: name, Load: o.Load, Series: []string{evaluate.Prior, evaluate.Frozen, evaluate.Prequential}})
	var online evaluate.Online
	vector, frozen := make([]feature.Vector, 1), make([]feature.Forecast, 1)
	for i := range judging {
		r := &judging[i]
		vector[0] = r.Sample.Vector
		e.Evaluate(vector, frozen)
		c := r.Case
		c.LLM = o.LLM
		c.Forecasts = []feature.Forecast{evaluate.PriorForecast(&vector[0]), frozen[0], online.Correct(&c, frozen[0], r.Sample.Finished)}
		f.Add(&c)
	}
	return f.Report(o.Seed), nil
}
