package bench_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/bench"
)

func TestBarLine(t *testing.T) {
	for _, test := range []struct {
		bar  bench.Bar
		want string
	}{
		{bench.Bar{Name: "error", Value: 0.0123456, Relation: bench.AtMost, Bound: 0.013}, "bar error 0.01235 <= 0.013 ok"},
		{bench.Bar{Name: "error", Value: 0.0131, Relation: bench.AtMost, Bound: 0.013}, "bar error 0.0131 <= 0.013 short"},
		{bench.Bar{Name: "speed", Value: 151234.4, Relation: bench.AtLeast, Bound: 150000}, "bar speed 151234 >= 150000 ok"},
		{bench.Bar{Name: "edge", Value: 1, Relation: bench.AtLeast, Bound: 1}, "bar edge 1 >= 1 ok"},
		{bench.Bar{Name: "nothing", Value: math.NaN(), Relation: bench.AtMost, Bound: 1}, "bar nothing NaN <= 1 short"},
		{bench.Bar{Name: "nonsense", Value: 1, Relation: "==", Bound: 1}, "bar nonsense 1 == 1 short"},
	} {
		if got := test.bar.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestWithinWantsBothEnds(t *testing.T) {
	for value, want := range map[float64]int{1.2: 1, 1.3: 2, 2: 2, 3: 2, 3.1: 1} {
		held := 0
		for _, b := range bench.Within("ratio", value, 1.3, 3) {
			if b.Holds() {
				held++
			}
		}
		if held != want {
			t.Errorf("%v of 1.3 to 3: %d bars hold, want %d", value, held, want)
		}
	}
}

func TestReportSavesWhatItPrints(t *testing.T) {
	report := bench.Report{
		Name: "trial", Command: "make bench-trial", Origin: bench.Here(), Seeds: []uint64{1, 2},
		Sizes: map[string]int{"requests": 3},
		Bars:  []bench.Bar{{"good", 1, bench.AtLeast, 0.5}, {"bad", math.Inf(1), bench.AtMost, 2}},
	}
	if err := report.Err(); !errors.Is(err, bench.ErrShort) || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("got %v, want one of two bars short", err)
	}
	var lines strings.Builder
	report.Print(&lines)
	if want := "bar good 1 >= 0.5 ok\nbar bad +Inf <= 2 short\n"; lines.String() != want {
		t.Errorf("printed %q, want %q", lines.String(), want)
	}
	folder := filepath.Join(t.TempDir(), "made", "here")
	if err := report.Save(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "trial.json"))
	if err != nil {
		t.Fatal(err)
	}
	var saved struct {
		Command string
		Origin  bench.Origin
		Seeds   []uint64
		Bars    []struct {
			Name, Verdict string
			Value         *float64
		}
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		t.Fatal(err)
	}
	if saved.Command != "make bench-trial" || saved.Origin.Commit == "" || saved.Origin.CPUs < 1 || len(saved.Seeds) != 2 {
		t.Errorf("saved %s", text)
	}
	if len(saved.Bars) != 2 || saved.Bars[0].Verdict != "ok" || saved.Bars[1].Verdict != "short" || saved.Bars[1].Value != nil {
		t.Errorf("saved bars %+v", saved.Bars)
	}
	report.Bars = report.Bars[:1]
	if err := report.Err(); err != nil {
		t.Errorf("all bars hold: %v", err)
	}
}
