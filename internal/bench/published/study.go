package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spillway-llm/spillway/internal/workload"
)

// study is one published workload.
type study struct {
	name      string // of the workload
	file      string // of the published table
	engine    string // of a table with the engines' own TTFT p90 and the throughput at loads that file leaves out; ""
	endpoints int
	output    bool // judged by output tokens/s rather than input
	least     float64
	most      float64   // of the matched arms' sustained throughput over round-robin's
	pairs     bool      // the order of all arm pairs that differ is judged
	arms      [4]string // what the table calls our arms; "" where it has none
}

var studies = []study{
	{name: "code-generation", file: "codegen.csv", engine: "codegen-replicate-noise.csv", endpoints: 10, least: 1.3, most: 3, pairs: true,
		arms: [4]string{"k8", "legacy-blend", "prefix+token", ""}},
	{name: "reasoning", file: "reasoning.csv", endpoints: 10, output: true, least: 0.95, most: 1.1,
		arms: [4]string{"k8", "legacy-blend", "prefix+token", "run-req"}},
	{name: "b2b-saas", file: "b2b-saas.csv", endpoints: 8, least: 1.8, most: 3, pairs: true,
		arms: [4]string{"k8", "legacy-blend", "prefix+token", ""}},
}

// throughput is what the study is judged by.
func (s study) throughput(c cell) float64 {
	if s.output {
		return c.Output
	}
	return c.Input
}

func (s study) unit() string {
	if s.output {
		return "output tokens/s"
	}
	return "input tokens/s"
}

// ladder is cells by arm and by load.
type ladder struct {
	loads []float64
	cells [len(arms)][]cell
}

func newLadder(loads []float64) ladder {
	l := ladder{loads: loads}
	for a := range l.cells {
		l.cells[a] = slices.Repeat([]cell{nothing}, len(loads))
	}
	return l
}

// load reads the published cells of a study, at the loads that the workload has,
// and those of another campaign where there is one; else its ladder has no loads.
func (s study) load(folder string) (published, again ladder, err error) {
	spec, err := workload.Named(s.name)
	if err != nil {
		return published, again, err
	}
	loads := spec.Ladder()
	path := filepath.Join(folder, s.file)
	rows, err := read(path, readRows)
	if err != nil {
		return published, again, err
	}
	if s.engine != "" {
		of := func(campaign string) ([]row, error) {
			return read(filepath.Join(folder, s.engine), func(r io.Reader) ([]row, error) { return readEngineRows(r, campaign) })
		}
		same, err := of(sameCampaign)
		if err != nil {
			return published, again, err
		}
		for _, m := range same {
			if !slices.ContainsFunc(rows, func(r row) bool { return r.arm == m.arm && r.load == m.load }) {
				rows = append(rows, m)
			}
		}
		other, err := of(otherCampaign)
		if err != nil {
			return published, again, err
		}
		if again, err = s.arrange(other, loads); err != nil {
			return published, again, err
		}
	}
	published, err = s.arrange(rows, loads)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return published, again, err
}

// arrange puts rows at the loads that they were offered.
func (s study) arrange(rows []row, loads []float64) (ladder, error) {
	l := newLadder(loads)
	offered, place := loads, make([]int, 0, len(loads)+1)
	for i := range offered {
		place = append(place, i)
	}
	if s.name == "b2b-saas" { // the warm-up has a row of its own, just below that of the stage with its rate
		at := slices.Index(offered, 15)
		offered, place = slices.Insert(slices.Clone(offered), at, 15), slices.Insert(place, at, -1)
	}
	for a, name := range s.arms {
		var mine []row
		for _, r := range rows {
			if name != "" && r.arm == name {
				mine = append(mine, r)
			}
		}
		slices.SortStableFunc(mine, func(a, b row) int { return cmp.Compare(a.load, b.load) })
		achieved := make([]float64, len(mine))
		for i := range mine {
			achieved[i] = mine[i].load
		}
		places := align(achieved, offered)
		if len(places) != len(mine) {
			return l, fmt.Errorf("%d rows of %s for %d loads", len(mine), name, len(offered))
		}
		for i, at := range places {
			if place[at] >= 0 {
				l.cells[a][place[at]] = mine[i].cell
			}
		}
	}
	return l, nil
}

func read(path string, rows func(io.Reader) ([]row, error)) ([]row, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := rows(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}
