// Fleet judges the speed of the simulator and of the policies by the benchmarks that
// stand beside them: requests simulated per second of CPU, what a request costs
// outside the decision on large fleets over small ones, and whether a decision is
// linear in its candidates. All are counts or ratios within one run; of several
// repetitions the best counts, because others may use the machine meanwhile.
//
//	go run ./internal/bench/fleet --out docs/results
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/spillway-llm/spillway/internal/bench"
)

func main() {
	out := flag.String("out", "", "folder for fleet.json")
	repeat := flag.Int("repeat", 3, "repetitions of each benchmark")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *out, *repeat); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// The benchmarks, and how long each repetition takes.
var suites = []struct{ folder, pattern, time string }{
	{"./internal/fleet", "^BenchmarkWorld$/^(token-load|predicted)$", "1x"},
	{"./internal/fleet", "^BenchmarkWorldSize$", "1x"},
	{"./router/policy", "^BenchmarkDecide$", "200ms"},
}

func run(ctx context.Context, w io.Writer, out string, repeat int) error {
	m := measurements{}
	for _, s := range suites {
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", s.pattern, "-benchtime", s.time, "-count", strconv.Itoa(repeat), s.folder)
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
		}
		m.read(string(text))
	}
	m.print(w)
	report := bench.Report{
		Name: "fleet", Command: "make bench-fleet", Origin: bench.Here(),
		Sizes: map[string]int{"repetitions": repeat}, Bars: bars(m), Data: m,
	}
	report.Print(w)
	if out != "" {
		if err := report.Save(out); err != nil {
			return err
		}
	}
	return report.Err()
}
