package main

import (
	"fmt"
	"io"
	"strings"
)

// spread is what a bar would be on each seed alone. The published runs are one each.
type spread struct {
	Bar    string    `json:"bar"`
	Values []float64 `json:"values"` // by seed
}

// spreads judges every seed by itself. The two bars of a gain say it once.
func spreads(all []comparison) (out []spread) {
	for seed := range all[0].each {
		alone := make([]comparison, len(all))
		for i, c := range all {
			c.simulated = c.each[seed]
			alone[i] = c
		}
		place := 0
		for _, b := range bars(alone) {
			if strings.HasSuffix(b.Name, "_gain_max") {
				continue
			}
			if seed == 0 {
				out = append(out, spread{Bar: strings.TrimSuffix(b.Name, "_min")})
			}
			out[place].Values = append(out[place].Values, b.Value)
			place++
		}
	}
	return out
}

// writeSpread shows how far the seeds agree about the bars.
func writeSpread(w io.Writer, all []comparison) {
	fmt.Fprint(w, "\n## Each seed by itself\n\nThe bars are judged on the mean of the seeds; a published run is one.\n\n| | by seed |\n|---|---|\n")
	for _, s := range spreads(all) {
		var values []string
		for _, v := range s.Values {
			values = append(values, number(v, 2))
		}
		fmt.Fprintf(w, "| %s | %s |\n", strings.ReplaceAll(strings.TrimPrefix(s.Bar, "published_"), "_", " "), strings.Join(values, ", "))
	}
}
