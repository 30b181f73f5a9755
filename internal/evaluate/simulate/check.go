package simulate

import (
	"context"
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// How far the replay of the logging policy may be off before others are not ranked.
const (
	mostOffP50 = 0.15
	mostOffP90 = 0.25
	// fewestJudged is how many answered requests a p90 is of at least.
	fewestJudged = 50
)

// Check is how the log comes out when it is replayed under the policy that wrote
// it.
type Check struct {
	Logged    Metrics   `json:"logged"`
	Simulated Metrics   `json:"simulated"`
	Off       []Departs `json:"off"`
	Trusted   bool      `json:"trusted"` // others may be ranked
}

// Departs is by how much one quantile does.
type Departs struct {
	Metric    string          `json:"metric"`
	Quantile  string          `json:"quantile"`
	Logged    feature.Seconds `json:"logged"`
	Simulated feature.Seconds `json:"simulated"`
	Off       feature.Number  `json:"off"`  // simulated/logged - 1
	Most      float64         `json:"most"` // that it may be, either way
}

// Kept reports whether it is off by no more than it may be.
func (d *Departs) Kept() bool { return math.Abs(float64(d.Off)) <= d.Most }

// String is the departure in words.
func (d *Departs) String() string {
	return fmt.Sprintf("%s %s is %.3g s simulated and %.3g s in the log (%+.0f %%, at most %.0f %%)", d.Metric, d.Quantile, d.Simulated, d.Logged, 100*d.Off, 100*d.Most)
}

// Check replays the log under the policy that wrote it, once with each seed.
func (m *Model) Check(ctx context.Context, seeds []uint64) (*Check, error) {
	results, err := m.Run(ctx, Setting{}, seeds)
	if err != nil {
		return nil, err
	}
	return m.Against(results), nil
}

// Against compares the log with runs of the zero Setting.
func (m *Model) Against(runs []Result) *Check {
	c := &Check{Logged: m.log.logged(), Simulated: meanOf(runs), Trusted: true}
	for _, of := range latencies {
		logged, simulated := of.times(&c.Logged), of.times(&c.Simulated)
		for _, q := range []struct {
			name      string
			log, sim  feature.Seconds
			mostOff   float64
			isQuantil bool
		}{{"p50", logged.P50, simulated.P50, mostOffP50, true}, {"p90", logged.P90, simulated.P90, mostOffP90, true}} {
			d := Departs{of.name, q.name, q.log, q.sim, feature.Number(q.sim/q.log - 1), q.mostOff}
			if d.Off != d.Off { // the log has none
				continue
			}
			c.Off = append(c.Off, d)
			c.Trusted = c.Trusted && d.Kept()
		}
	}
	c.Trusted = c.Trusted && c.Logged.Requests >= fewestJudged && len(c.Off) > 0
	return c
}

// Why says in a sentence what is off; empty where others may be ranked.
func (c *Check) Why() string {
	switch {
	case c.Trusted:
		return ""
	case c.Logged.Requests < fewestJudged:
		return fmt.Sprintf("%d answered requests are left when the log has settled, too few to check the replay by (want at least %d), so others are not ranked", c.Logged.Requests, fewestJudged)
	case len(c.Off) == 0:
		return "no request has a latency once the log has settled, so the replay can't be checked and others are not ranked"
	}
	text := "the replay of the logged policy is off, so others are not ranked: "
	n := 0
	for i := range c.Off {
		if d := &c.Off[i]; !d.Kept() {
			if n++; n > 1 {
				text += "; "
			}
			text += d.String()
		}
	}
	return text
}

// latency is one of the three.
type latency struct {
	name  string
	times func(*Metrics) *Times
}

var latencies = []latency{
	{"TTFT", func(m *Metrics) *Times { return &m.TTFT }},
	{"TPOT", func(m *Metrics) *Times { return &m.TPOT }},
	{"E2E", func(m *Metrics) *Times { return &m.E2E }},
}

// meanOf is the mean of every number over runs.
func meanOf(runs []Result) Metrics {
	var out Metrics
	n := float64(len(runs))
	for i := range runs {
		r := &runs[i].Metrics
		out.Requests = r.Requests
		for _, of := range latencies {
			to, from := of.times(&out), of.times(r)
			to.Mean += from.Mean / feature.Seconds(n)
			to.P50 += from.P50 / feature.Seconds(n)
			to.P90 += from.P90 / feature.Seconds(n)
		}
		out.Failed += r.Failed / feature.Number(n)
		out.HitRate += r.HitRate / feature.Number(n)
	}
	return out
}
