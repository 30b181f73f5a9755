package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/collector"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/report"
	"github.com/spillway-llm/spillway/internal/feature"
)

// judging is what "spillway evaluate forecasts" was asked for.
type judging struct {
	rows    loggedRows
	load    string
	column  int // of load
	seed    uint64
	refit   bool
	profile string // of the prior of measurements
	config  string // file with the settings of the fit
}

func evaluateForecastsCommand() *cobra.Command {
	var j judging
	a := findings[[]evaluate.Report]{
		judge: func(cmd *cobra.Command) ([]evaluate.Report, error) {
			if j.refit {
				return j.refitted(cmd)
			}
			return j.logged(cmd)
		},
		table: func(w io.Writer, r *[]evaluate.Report) error { return report.WriteTable(w, *r) },
		page:  func(w io.Writer, r *[]evaluate.Report, command string) error { return report.WritePage(w, *r, command) },
		json: func(r *[]evaluate.Report) any {
			return struct {
				Command string            `json:"command"`
				Reports []evaluate.Report `json:"reports"`
			}{commandLine(), *r}
		},
	}
	cmd := &cobra.Command{
		Use:   "forecasts",
		Short: "How good the logged forecasts were, by what came",
		Long: `Judge the forecasts that stood beside decisions by the TTFT and TPOT that came:
error, honesty of the p90, bias, and whether they put endpoints in the right order,
for the analytic prior, the bundle, and the forecast as it was used. By decile of
load before the decision, by endpoint and by length of the prompt; requests that
were chosen for their cost and explored ones apart.

With --refit the logged forecasts are left aside: a bundle is fitted to the first
80 % of the rows, as the trainer would with the settings of --config, and judged on the others, as it was fitted
and corrected online; then the same with 80 % drawn at random, which flatters every
model. So it can also judge measurements of others, in the format of measured-h200.`,
		Example: `  DATABASE_URL=postgres://... spillway evaluate forecasts --window 24h --llm qwen3-32b
  spillway evaluate forecasts --rows rows.parquet --report out.html
  spillway evaluate forecasts --rows rows.csv --load kv_used --json
  spillway evaluate forecasts --rows sharegpt-h200.jsonl --refit`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := j.check(); err != nil {
				return err
			}
			_, err := a.give(cmd)
			return err
		},
	}
	j.rows.register(cmd)
	f := cmd.Flags()
	f.StringVar(&j.load, "load", "inflight_requests", "number of the endpoint's load that the deciles are of: "+strings.Join(loadColumns(), ", "))
	f.Uint64Var(&j.seed, "seed", 1, "seed of the bootstrap, and of the random split")
	f.BoolVar(&j.refit, "refit", false, "judge a bundle that is fitted to the first 80 % of the rows, and one fitted to a random 80 %")
	f.StringVarP(&j.config, "config", "c", "", "with --refit: configuration file (YAML) whose trainer section says how to fit; without, its defaults")
	f.StringVar(&j.profile, "profile", defaultProfile, "engine profile of the prior, for measurements that come without one")
	a.register(f)
	return cmd
}

// loadColumns are the numbers of the vector that tell of the endpoint's load
// before the decision.
func loadColumns() (names []string) {
	for _, f := range feature.Table() {
		if (f.Source == feature.FromLedger || f.Source == feature.FromScrape) && f.Name != "scrape_age" {
			names = append(names, f.Name)
		}
	}
	return names
}

// check finds mistakes in the flags alone.
func (j *judging) check() error {
	j.column = -1
	for _, name := range loadColumns() {
		if name == j.load {
			j.column = feature.Index(name)
		}
	}
	if j.column < 0 {
		return fmt.Errorf("--load: %q tells of no load: want one of %s", j.load, strings.Join(loadColumns(), ", "))
	}
	if j.config != "" && !j.refit {
		return errors.New("--config wants --refit: it says how to fit what is judged")
	}
	return j.rows.check()
}

// logged judges the forecasts as they were logged.
func (j *judging) logged(cmd *cobra.Command) ([]evaluate.Report, error) {
	f := evaluate.NewForecasts(evaluate.Options{Series: evaluate.Logged(), Split: evaluate.AsLogged, Load: j.load})
	defer collector.Often()()
	err := j.rows.each(cmd, func(row *feature.Row) error {
		c, why := evaluate.CaseOf(row, j.column)
		if why != "" {
			f.Skip(why)
		} else {
			f.Add(&c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := f.Report(j.seed)
	switch {
	case r.Rows == 0:
		return nil, j.rows.none()
	case r.Judged == 0:
		return nil, unjudged(&r)
	}
	return []evaluate.Report{r}, nil
}

// unjudged is the error of rows of which none can be judged: what most of them
// lack.
func unjudged(r *evaluate.Report) error {
	most := r.LeftOut[0]
	for _, l := range r.LeftOut[1:] {
		if l.Rows > most.Rows {
			most = l
		}
	}
	if most.Why == evaluate.NoForecast {
		return fmt.Errorf("%d of %d rows have no forecast: no bundle was served then; --refit fits one and judges it", most.Rows, r.Rows)
	}
	return fmt.Errorf("none of the %d rows can be judged; %d of them: %s", r.Rows, most.Rows, most.Why)
}
