package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/process"
	"github.com/spillway-llm/spillway/router/policy"
)

const (
	few, many   = 10, 200 // endpoints
	concurrency = 400
	promptBytes = 5000 // about 1,000 tokens, half of them the same in all
	rounds      = 3    // of every way to serve, in turn; the median counts

	// costBound is what a request may cost with 200 endpoints, in those with 10.
	costBound = 2.0
)

// costs are CPU seconds a request of the process in the middle, by way to serve.
type costs struct {
	Ways []way `json:"ways"`
}

// way is one process in the middle, before a number of endpoints.
type way struct {
	Name      string    `json:"name"`
	Endpoints int       `json:"endpoints"`
	CPU       []float64 `json:"cpu_seconds"` // a request, of each round
	Rate      []float64 `json:"requests_per_second"`
	Failed    int       `json:"failed"`
	Forecast  int       `json:"decided_by_forecasts"`
	Served    int       `json:"served"`

	role   string
	middle *process.Process
	url    string
}

// measure runs all ways in turn.
func measure(ctx context.Context, o options, report *bench.Report) (*costs, error) {
	var engines ready
	p, err := process.Start(ctx, "engines", many, &engines)
	if err != nil {
		return nil, err
	}
	defer p.End()
	out := &costs{Ways: []way{
		{Name: "bare proxy", role: "proxy", Endpoints: many},
		{Name: "router", role: "router", Endpoints: few},
		{Name: "router", role: "router", Endpoints: many},
	}}
	for i := range out.Ways {
		w := &out.Ways[i]
		var at ready
		if w.middle, err = process.Start(ctx, w.role, engines.URLs[:w.Endpoints], &at); err != nil {
			return nil, err
		}
		defer w.middle.End()
		w.url = at.URLs[0] + "/v1/chat/completions"
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * concurrency, DisableCompression: true}}
	bodies := prompts(o.seed)
	for round := -1; round < rounds; round++ { // the first warms
		for i := range out.Ways {
			if err := out.Ways[i].load(ctx, client, bodies, o.duration, round >= 0); err != nil {
				return nil, err
			}
		}
	}
	report.Sizes["fake endpoints"], report.Sizes["concurrency"] = many, concurrency
	return out, nil
}

// load sends requests through w for a time, as fast as they are answered.
func (w *way) load(ctx context.Context, client *http.Client, bodies [][]byte, length time.Duration, counts bool) error {
	var before, after time.Duration
	if err := w.middle.Ask("", &before); err != nil {
		return err
	}
	began := time.Now()
	until, stop := context.WithTimeout(ctx, length)
	defer stop()
	var mu sync.Mutex
	served, failed, forecast := 0, 0, 0
	var all sync.WaitGroup
	for c := range concurrency {
		all.Go(func() {
			for n := c; until.Err() == nil; n++ {
				by, err := send(ctx, client, w.url, bodies[n%len(bodies)])
				mu.Lock()
				if by == policy.Predicted {
					forecast++
				}
				if err != nil {
					failed++
				} else {
					served++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	if err := w.middle.Ask("", &after); err != nil {
		return err
	}
	if served == 0 {
		return errors.Join(ctx.Err(), fmt.Errorf("%s with %d endpoints answered nothing, %d requests failed", w.Name, w.Endpoints, failed))
	}
	if counts {
		w.CPU, w.Rate = append(w.CPU, (after-before).Seconds()/float64(served)), append(w.Rate, float64(served)/took)
		w.Failed, w.Served, w.Forecast = w.Failed+failed, w.Served+served, w.Forecast+forecast
	}
	return nil
}

// send sends one request, takes its answer in and says what policy decided.
func send(ctx context.Context, client *http.Client, url string, body []byte) (by string, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := client.Do(q)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return "", err
	}
	if a.StatusCode != http.StatusOK || !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) {
		return "", fmt.Errorf("status %d, %d bytes", a.StatusCode, len(text))
	}
	return a.Header.Get("x-spillway-policy"), nil
}

// prompts are bodies whose first half is the same in all.
func prompts(seed uint64) [][]byte {
	same, rng := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	words := func(r *rand.Rand, size int) []byte {
		var b []byte
		for len(b) < size {
			b = append(strconv.AppendUint(b, r.Uint64N(1e6), 36), ' ')
		}
		return b
	}
	system := words(same, promptBytes/2)
	all := make([][]byte, 256)
	for i := range all {
		all[i] = fmt.Appendf(nil, `{"model":%q,"stream":true,"max_tokens":100,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`,
			llm, system, words(rng, promptBytes/2))
	}
	return all
}

// median is the middle round's.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// print writes the table.
func (c *costs) print(out io.Writer) error {
	fmt.Fprintf(out, "real processes: %d at once, prompts of %d bytes, answers of %d tokens\n", concurrency, promptBytes, answerTokens)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "in the middle\tendpoints\tCPU a request\trequests/s\tdecided by forecasts\tfailed")
	for _, w := range c.Ways {
		fmt.Fprintf(tw, "%s\t%d\t%.0f us\t%.0f\t%.1f %%\t%d\n", w.Name, w.Endpoints, 1e6*median(w.CPU), median(w.Rate), 100*float64(w.Forecast)/float64(w.Served), w.Failed)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

// bars are the promises.
func (c *costs) bars() []bench.Bar {
	failed := 0
	for _, w := range c.Ways[1:] {
		failed += w.Failed
	}
	return []bench.Bar{
		{Name: "router_cpu_200_to_10", Value: median(c.Ways[2].CPU) / median(c.Ways[1].CPU), Relation: bench.AtMost, Bound: costBound},
		{Name: "router_failed_requests", Value: float64(failed), Relation: bench.AtMost, Bound: 0},
	}
}
