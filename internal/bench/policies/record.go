package main

// record is what is saved beside the bars.
type record struct {
	Worlds    []savedWorld `json:"worlds"`
	Ablations []ablated    `json:"ablations,omitempty"`
}

type savedWorld struct {
	Name    string      `json:"name"`
	Unit    string      `json:"unit"`
	Knee    float64     `json:"knee,omitempty"`
	Matched string      `json:"compared_with"`
	Cells   []savedCell `json:"cells"`
	Refits  []refitted  `json:"refits"` // by seed
}

// refitted is what the trainer's cycles came to.
type refitted struct {
	Rows     int      `json:"rows"`
	Outcomes []string `json:"outcomes"`
	Why      []string `json:"why"`
}

type savedCell struct {
	Load   float64            `json:"load"`
	Arm    string             `json:"policy"`
	Mean   map[string]float64 `json:"mean"`   // over seeds, seconds
	Change map[string]change  `json:"change"` // against compared_with
	Failed int                `json:"failed"`
}

func newRecord(studies []*study) record {
	r := record{Ablations: newAblations(studies)}
	for _, s := range studies {
		matched := s.matched()
		saved := savedWorld{Name: s.world.name, Unit: s.world.unit, Knee: s.world.knee, Matched: s.arms[matched].name}
		for _, l := range s.lessons {
			saved.Refits = append(saved.Refits, refitted{l.rows, l.outcomes, l.why})
		}
		for l, load := range s.world.loads {
			for a := range arms {
				c := savedCell{Load: load, Arm: s.arms[a].name, Mean: map[string]float64{}, Change: map[string]change{}}
				for m := range metrics {
					c.Mean[identifier(m)] = s.mean(a, l, func(c cell) float64 { return c.Value[m] })
					c.Change[identifier(m)] = changeOf(s.logs(a, matched, l, m))
				}
				for _, of := range s.cells[a][l] {
					c.Failed += of.Failed
				}
				saved.Cells = append(saved.Cells, c)
			}
		}
		r.Worlds = append(r.Worlds, saved)
	}
	return r
}
