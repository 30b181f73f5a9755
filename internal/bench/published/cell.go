package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// cell is one arm at one load, simulated or published. What is not known is NaN.
type cell struct {
	TTFT    float64 // p90, seconds
	TPOT    float64 // p90, seconds
	Input   float64 // tokens/s, of the requests that succeeded, from the first sent to the last ended
	Output  float64 // tokens/s, likewise
	Success float64 // share of requests
	Hits    float64 // share of prompt tokens found cached; not published by clients

	Engine bool // TTFT is the engines' own, not a client's
}

var nothing = cell{
	TTFT: math.NaN(), TPOT: math.NaN(), Input: math.NaN(), Output: math.NaN(), Success: math.NaN(), Hits: math.NaN(),
}

func (c cell) known() bool { return !math.IsNaN(c.TTFT) }

// MarshalJSON leaves out what is not known.
func (c cell) MarshalJSON() ([]byte, error) {
	known := map[string]float64{}
	for _, x := range []struct {
		name  string
		value float64
	}{
		{"ttft_p90_seconds", c.TTFT}, {"tpot_p90_seconds", c.TPOT}, {"input_tokens_per_second", c.Input},
		{"output_tokens_per_second", c.Output}, {"success", c.Success}, {"hit_rate", c.Hits},
	} {
		if !math.IsNaN(x.value) {
			known[x.name] = x.value
		}
	}
	if len(known) == 0 {
		return []byte("null"), nil
	}
	return json.Marshal(known)
}

// mean averages the cells of several seeds.
func mean(cells []cell) cell {
	var sum cell
	for _, c := range cells {
		sum.TTFT += c.TTFT
		sum.TPOT += c.TPOT
		sum.Input += c.Input
		sum.Output += c.Output
		sum.Success += c.Success
		sum.Hits += c.Hits
	}
	n := float64(len(cells))
	return cell{
		TTFT: sum.TTFT / n, TPOT: sum.TPOT / n, Input: sum.Input / n, Output: sum.Output / n,
		Success: sum.Success / n, Hits: sum.Hits / n,
	}
}

// row is one line of a published table.
type row struct {
	arm  string
	load float64 // clients, or requests/s as achieved
	cell cell
}

// readRows reads a published table. The client's own columns are used: those that
// begin with v, and the cache and queue columns, are the engines' and unreliable.
func readRows(r io.Reader) ([]row, error) {
	t, err := newTable(r)
	if err != nil {
		return nil, err
	}
	load := "conc"
	if !t.has(load) {
		load = "ach_qps"
	}
	return t.rows(load, func(number func(string) float64) cell {
		return cell{
			TTFT: number("ttft_p90_s"), TPOT: number("tpot_p90_ms") / 1000,
			Input: number("in_tps"), Output: number("out_tps"), Success: number("success") / 100, Hits: math.NaN(),
		}
	})
}

// The campaigns of the engines' table: the client's tables are of the first.
const (
	sameCampaign  = "run7c4b"
	otherCampaign = "run73f3"
)

// readEngineRows reads one campaign of the engines' table.
func readEngineRows(r io.Reader, campaign string) ([]row, error) {
	t, err := newTable(r)
	if err != nil {
		return nil, err
	}
	return t.rows("conc", func(number func(string) float64) cell {
		c := nothing
		c.Engine = true
		c.TTFT, c.Input = number("vttft_p90_s_"+campaign), number("in_tps_"+campaign)
		return c
	})
}

// table is a CSV file with a header.
type table struct {
	in     *csv.Reader
	column map[string]int
}

func newTable(r io.Reader) (*table, error) {
	t := &table{in: csv.NewReader(r), column: map[string]int{}}
	header, err := t.in.Read()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	for i, name := range header {
		t.column[name] = i
	}
	return t, nil
}

func (t *table) has(name string) bool { _, ok := t.column[name]; return ok }

// rows reads all lines; of makes a cell of the numbers that it asks for.
func (t *table) rows(load string, of func(number func(string) float64) cell) ([]row, error) {
	var rows []row
	for {
		line, err := t.in.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		at, _ := t.in.FieldPos(0)
		var broken error
		text := func(name string) string {
			i, ok := t.column[name]
			if !ok {
				broken = fmt.Errorf("no column %q", name)
				return ""
			}
			return line[i]
		}
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(text(name), 64)
			if broken == nil && (err != nil || !(v >= 0) || math.IsInf(v, 0)) {
				broken = fmt.Errorf("line %d: %s is %q: want a number of 0 or more", at, name, text(name))
			}
			return v
		}
		rows = append(rows, row{arm: text("arm"), load: number(load), cell: of(number)})
		if broken != nil {
			return nil, broken
		}
	}
}

// align gives each row, in order of load, the load of the ladder that it was
// offered: achieved rates scatter around these, so the assignment with the least
// sum of |ln(achieved/offered)| is taken that keeps the order and gives no load
// twice. The result holds an index into the ladder for each row.
func align(achieved, ladder []float64) []int {
	// cost[i][j]: the first i rows on the first j loads.
	cost := make([][]float64, len(achieved)+1)
	for i := range cost {
		cost[i] = make([]float64, len(ladder)+1)
		for j := range cost[i] {
			switch {
			case i == 0:
			case j == 0:
				cost[i][j] = math.Inf(1)
			default:
				taken := cost[i-1][j-1] + math.Abs(math.Log(achieved[i-1]/ladder[j-1]))
				cost[i][j] = min(cost[i][j-1], taken)
			}
		}
	}
	places := make([]int, len(achieved))
	for i, j := len(achieved), len(ladder); i > 0; j-- {
		if j == 0 {
			return nil // more rows than loads
		}
		if cost[i][j] < cost[i][j-1] {
			i--
			places[i] = j - 1
		}
	}
	return places
}
