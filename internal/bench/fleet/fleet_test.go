package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkWorld/token-load-2         	       1	         0 ns/op	      5104 requests	      3210 requests/cpu-s
BenchmarkWorld/token-load-2         	       1	         0 ns/op	      5104 requests	      2400 requests/cpu-s
BenchmarkWorld/predicted            	       1	         0 ns/op	      2000 requests/cpu-s
BenchmarkWorldSize/10-2             	       1	 40000 ns/request-outside
BenchmarkWorldSize/1000-2           	       1	 70000 ns/request-outside
BenchmarkDecide/token-load/100-2    	    1000	     10000 ns/op	       0 B/op
BenchmarkDecide/token-load/1000-2   	    1000	    130000 ns/op	       0 B/op
BenchmarkBroken/x	what is this
PASS
`

func TestBarsOfBenchmarks(t *testing.T) {
	m := measurements{}
	m.read(output)
	var lines strings.Builder
	for _, b := range bars(m) {
		lines.WriteString(b.String() + "\n")
	}
	for _, want := range []string{
		"bar fleet_requests_per_cpu_second_token_load 3210 >= 2500 ok",
		"bar fleet_requests_per_cpu_second_predicted 2000 >= 2500 short",
		"bar fleet_outside_decide_1000_over_10 1.75 <= 2 ok",
		"bar decide_per_candidate_1000_over_100_token_load 1.3 <= 1.2 short",
		"bar decide_per_candidate_1000_over_100_predicted NaN <= 1.2 short",
	} {
		if !strings.Contains(lines.String(), want+"\n") {
			t.Errorf("%q is missing in\n%s", want, lines.String())
		}
	}
	var table strings.Builder
	m.print(&table)
	if !strings.Contains(table.String(), "3210 2400") || strings.Contains(table.String(), "Broken") {
		t.Errorf("printed\n%s", table.String())
	}
}

func FuzzRead(f *testing.F) {
	f.Add(output)
	f.Fuzz(func(t *testing.T, text string) {
		m := measurements{}
		m.read(text)
		bars(m)
	})
}
