package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// names are the features of a row, shaped like what a router knows of a request
// and an endpoint; signs say how the target moves with each, where it does.
var (
	names = []string{
		"prompt_tokens", "cached_share", "waiting", "running", "kv_used", "queued_tokens", "decoding",
		"context_tokens", "age", "throughput", "max_seqs", "speed", "expected_output", "hour",
		"noise_1", "noise_2", "noise_3", "noise_4", "noise_5", "noise_6",
	}
	signs = []int8{1, -1, 1, 1, 1, 1, 0, 1, 0, -1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0}
)

// noiseDeviation is that of the noise of the target before outliers.
const noiseDeviation = 0.22

// makeRows makes rows whose target is the log of a time to first token: prefill
// of what is not cached, behind a queue, slowed by decoding, with lognormal noise
// and 2 % of outliers; 3 % of the scraped values are missing. All numbers are
// those of a float32, which is what XGBoost keeps.
func makeRows(n int, seed uint64) gbdt.Data {
	rng := rand.New(rand.NewPCG(seed, 17))
	d := gbdt.Data{FeatureNames: names, X: make([]float64, 0, n*len(names)), Y: make([]float64, n)}
	for i := range n {
		prompt := math.Round(math.Exp(7 + 1.1*rng.NormFloat64()))
		cached := 0.0
		if rng.IntN(3) > 0 {
			cached = rng.Float64()
		}
		running := float64(rng.IntN(64))
		waiting := 0.0
		if running > 40 {
			waiting = math.Round(rng.ExpFloat64() * (running - 40) / 4)
		}
		kv := math.Min(1, running/64*(0.5+rng.Float64()))
		queued := math.Round(waiting * prompt * (0.3 + rng.Float64()))
		decoding := math.Round(running * (0.6 + 0.4*rng.Float64()))
		context := math.Round(decoding * 1500 * (0.5 + rng.Float64()))
		throughput := 8000 * float64(1+rng.IntN(4))
		speed := 0.8 + 0.4*rng.Float64()
		own := (1-cached)*prompt + 64
		seconds := (own+0.5*queued)/(throughput*speed) + 0.012 + 0.0006*decoding + 1.5e-7*context
		if kv > 0.92 {
			seconds += 0.4 * rng.ExpFloat64()
		}
		y := math.Log(seconds) + noiseDeviation*rng.NormFloat64()
		if rng.IntN(50) == 0 {
			y += 2 * rng.ExpFloat64()
		}
		row := []float64{
			prompt, cached, waiting, running, kv, queued, decoding, context, rng.ExpFloat64() * 0.2,
			throughput, float64(64 + 64*rng.IntN(3)), speed, math.Round(200 * rng.ExpFloat64()), float64(rng.IntN(24)),
		}
		for len(row) < len(names) {
			row = append(row, rng.NormFloat64())
		}
		for _, f := range [...]int{2, 3, 4, 7, 8} {
			if rng.IntN(33) == 0 {
				row[f] = math.NaN()
			}
		}
		for _, v := range row {
			d.X = append(d.X, float64(float32(v)))
		}
		d.Y[i] = float64(float32(y))
	}
	return d
}

// firstRows is the first n rows of d.
func firstRows(d gbdt.Data, n int) gbdt.Data {
	return gbdt.Data{FeatureNames: d.FeatureNames, X: d.X[:n*len(d.FeatureNames)], Y: d.Y[:n]}
}

// write puts the values and the targets into folder as raw little-endian
// numbers of 8 bytes, for others to read.
func write(d gbdt.Data, folder, name string) error {
	for suffix, numbers := range map[string][]float64{"x": d.X, "y": d.Y} {
		file, err := os.Create(filepath.Join(folder, name+"."+suffix))
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(file, 1<<20)
		if err := binary.Write(w, binary.LittleEndian, numbers); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// readNumbers reads n raw numbers back.
func readNumbers(path string, n int) ([]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(text) != 8*n {
		return nil, fmt.Errorf("%s: %d bytes, want %d numbers of 8", path, len(text), n)
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(text[8*i:]))
	}
	return out, nil
}
