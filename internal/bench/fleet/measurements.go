package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
)

// measurements are values by benchmark ("World/token-load") and unit ("ns/op").
type measurements map[string]map[string][]float64

// read takes in the output of go test -bench; lines that are no results are passed
// over.
func (m measurements) read(output string) {
	for line := range strings.Lines(output) {
		words := strings.Fields(line)
		name, ok := strings.CutPrefix(line, "Benchmark")
		if !ok || len(words) < 4 {
			continue
		}
		name = strings.Fields(name)[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i] // without the number of processors
			}
		}
		if _, err := strconv.Atoi(words[1]); err != nil {
			continue
		}
		for i := 2; i+1 < len(words); i += 2 {
			v, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				break
			}
			if m[name] == nil {
				m[name] = map[string][]float64{}
			}
			m[name][words[i+1]] = append(m[name][words[i+1]], v)
		}
	}
}

// least is the smallest value, NaN when there is none.
func (m measurements) least(name, unit string) float64 {
	if values := m[name][unit]; len(values) > 0 {
		return slices.Min(values)
	}
	return math.NaN()
}

func (m measurements) most(name, unit string) float64 {
	if values := m[name][unit]; len(values) > 0 {
		return slices.Max(values)
	}
	return math.NaN()
}

func (m measurements) print(w io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, unit := range slices.Sorted(maps.Keys(m[name])) {
			if unit == "ns/op" && len(m[name]) > 1 && m.most(name, unit) == 0 {
				continue // the benchmark reports in units of its own
			}
			var values []string
			for _, v := range m[name][unit] {
				values = append(values, strconv.FormatFloat(v, 'f', -1, 64))
			}
			fmt.Fprintf(w, "%-28s %-22s %s\n", name, unit, strings.Join(values, " "))
		}
	}
}

// The bounds.
const (
	requestsPerSecond = 150_000.0 / 60 // of CPU, mixed traffic on 10 endpoints
	outsideGrowth     = 2.0            // 1,000 endpoints over 10, at equal load of each
	decideGrowth      = 1.2            // per candidate, 1,000 over 100
)

func bars(m measurements) []bench.Bar {
	var out []bench.Bar
	for _, policy := range []string{"token-load", "predicted"} {
		out = append(out, bench.Bar{
			Name: "fleet_requests_per_cpu_second_" + strings.ReplaceAll(policy, "-", "_"), Value: m.most("World/"+policy, "requests/cpu-s"),
			Relation: bench.AtLeast, Bound: requestsPerSecond,
		})
	}
	const outside = "ns/request-outside"
	out = append(out, bench.Bar{
		Name: "fleet_outside_decide_1000_over_10", Value: m.least("WorldSize/1000", outside) / m.least("WorldSize/10", outside),
		Relation: bench.AtMost, Bound: outsideGrowth,
	})
	for _, policy := range []string{"token-load", "weighted-blend", "predicted"} {
		per := func(n float64) float64 {
			return m.least(fmt.Sprintf("Decide/%s/%g", policy, n), "ns/op") / n
		}
		out = append(out, bench.Bar{
			Name: "decide_per_candidate_1000_over_100_" + strings.ReplaceAll(policy, "-", "_"), Value: per(1000) / per(100),
			Relation: bench.AtMost, Bound: decideGrowth,
		})
	}
	return out
}
