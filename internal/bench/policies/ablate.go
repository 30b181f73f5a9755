package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/policy"
)

// ablation is predicted without one part of it.
func ablation(name string, change func(*fleet.RouterConfig)) arm {
	return arm{name: name, policy: policy.Predicted, says: forests, ablated: true, change: change}
}

// setting is an ablation that changes the settings of the policy.
func setting(name string, change func(*policy.Settings)) arm {
	return ablation(name, func(c *fleet.RouterConfig) {
		c.Settings = policy.Defaults()
		change(&c.Settings)
	})
}

// unreached is longer than any wait, and more than any share.
const unreached = 1e9

// ablations are all parts that can be switched off here. Forecasts take no time in
// the simulator: without the recomputation of priors under the ledger's lock,
// decisions see the ledger as it was up to 5 ms ago, which is the deadline of a
// forecast.
var ablations = []arm{
	setting("without eviction", func(s *policy.Settings) { s.EvictionWeight = 0 }),
	setting("without KV headroom", func(s *policy.Settings) { s.HeadroomWeight = 0 }),
	setting("without externality", func(s *policy.Settings) {
		s.PrefillExternality, s.QueueExternality, s.EvictionExternality, s.DecodeExternality = 0, 0, 0, 0
	}),
	setting("nobody held up", func(s *policy.Settings) { s.PrefillExternality = 0 }),
	setting("nobody queued behind", func(s *policy.Settings) { s.QueueExternality = 0 }),
	setting("without impatience", func(s *policy.Settings) { s.Impatience = 0 }),
	setting("without affinity", func(s *policy.Settings) { s.StickyShare, s.StickySaved = unreached, unreached }),
	setting("valve always shut", func(s *policy.Settings) { s.PredictedPenalty, s.MaxTTFTPenalty = unreached, unreached }),
	setting("one valve for queues and room", func(s *policy.Settings) { s.MaxTTFTPenalty = s.PredictedPenalty }),
	setting("without exploration", func(s *policy.Settings) { s.Exploration = 0 }),
	ablation("without offset", func(c *fleet.RouterConfig) { c.Without.Offset = true }),
	ablation("without tempering", func(c *fleet.RouterConfig) { c.Without.Temper = true }),
	ablation("without speed factor", func(c *fleet.RouterConfig) { c.Without.Speed = true }),
	ablation("forests of TTFT alone", func(c *fleet.RouterConfig) {
		if c.Forecaster != nil {
			c.Forecaster = ttftAlone{c.Forecaster}
		}
	}),
	ablation("without recomputed priors", func(c *fleet.RouterConfig) { c.Without.Recompute = 5 * time.Millisecond }),
	ablation("4 forecast of 10", func(c *fleet.RouterConfig) { c.Candidates = 4 }),
}

// ttftAlone says of TPOT what the prior does.
type ttftAlone struct{ of fleet.Forecaster }

// Forecast asks for both and forgets one.
func (t ttftAlone) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	t.of.Forecast(vectors, out)
	for i := range out {
		if !out[i].Known() {
			continue
		}
		p := vectors[i].Prior().TPOT
		out[i].TPOT, out[i].Residual.TPOT = feature.Quantiles{P50: p, P90: p}, feature.LogQuantiles{}
	}
}

// ablated is by how much predicted changes in a group without one part.
type ablated struct {
	Name    string            `json:"name"`
	Changes map[string]change `json:"changes"` // by group and metric, against predicted
}

// ablatedMetrics are those that ablations are told in.
var ablatedMetrics = []metric{e2e, ttftP90}

func newAblations(studies []*study) []ablated {
	var out []ablated
	for _, a := range studies[0].arms {
		if !a.ablated {
			continue
		}
		row := ablated{a.name, map[string]change{}}
		for _, g := range groups {
			for _, m := range ablatedMetrics {
				if in := of(studies, g); len(in) > 0 {
					row.Changes[string(g)+" "+identifier(m)] = pooled(in, a.name, against(predicted), m)
				}
			}
		}
		out = append(out, row)
	}
	return out
}

// writeAblations writes a table for each metric.
func writeAblations(w io.Writer, studies []*study) {
	rows := newAblations(studies)
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Without one part\n\nChanges in percent against predicted as it is, %d seeds.\n", studies[0].count(studies[0].arm(rows[0].Name)))
	shown := slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return len(of(studies, g)) == 0 })
	for _, m := range ablatedMetrics {
		fmt.Fprintf(w, "\n| %s |", m)
		line := "\n|---|"
		for _, g := range shown {
			fmt.Fprintf(w, " %s |", g)
			line += "---:|"
		}
		fmt.Fprintln(w, line)
		for _, r := range rows {
			fmt.Fprintf(w, "| %s |", r.Name)
			for _, g := range shown {
				fmt.Fprintf(w, " %s |", r.Changes[string(g)+" "+identifier(m)])
			}
			fmt.Fprintln(w)
		}
	}
}
