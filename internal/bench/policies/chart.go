package main

import (
	"fmt"

	"github.com/spillway-llm/spillway/internal/plot"
	"github.com/spillway-llm/spillway/router/policy"
)

// charted are the arms that are drawn, the most interesting first.
var charted = []string{predicted, policy.WeightedBlend, policy.PredictorBlend}

// chart is by how much the arms change the mean E2E in each world and at each
// load.
func chart(studies []*study) plot.Rows {
	rows := plot.Rows{
		Title:  "Mean E2E against the better of token-load and active-request, chosen with hindsight",
		X:      "change in %, with 95 % of the paired change; left is better",
		Series: charted, Least: -45, Most: 45,
	}
	for _, g := range groups {
		for i, s := range of(studies, g) {
			if i == 0 {
				rows.Rows = append(rows.Rows, plot.Row{Label: string(g), Head: true})
			}
			for l, load := range s.world.loads {
				row := plot.Row{Label: fmt.Sprintf("%s, %.3g", s.world.name, load)}
				if s.world.knee > 0 {
					row.Label = fmt.Sprintf("%s, %.0f %%", s.world.name, 100*s.world.shares[l])
				}
				for _, name := range charted {
					c := changeOf(s.logs(s.arm(name), s.matched(), l, e2e))
					row.Values = append(row.Values, plot.Value{At: 100 * c.Mean, Low: 100 * c.Low, High: 100 * c.High})
				}
				rows.Rows = append(rows.Rows, row)
			}
		}
	}
	return rows
}
