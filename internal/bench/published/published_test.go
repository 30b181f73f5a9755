package main

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
)

const head = "arm,conc,success,ttft_p90_s,tpot_p90_ms,in_tps,out_tps\n"

func TestReadRows(t *testing.T) {
	rows, err := readRows(strings.NewReader(head + "k8,10,99.5,25.7,413.2,15168.5,117.5\n"))
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	want := cell{TTFT: 25.7, TPOT: 0.4132, Input: 15168.5, Output: 117.5, Success: 0.995}
	got := rows[0].cell
	got.Hits = 0
	if rows[0].arm != "k8" || rows[0].load != 10 || math.Abs(got.TPOT-want.TPOT) > 1e-12 || got.Success != want.Success || got.TTFT != want.TTFT || got.Input != want.Input || got.Output != want.Output {
		t.Errorf("got %+v, want %+v", rows[0], want)
	}
	for text, says := range map[string]string{
		"":                                    "header",
		"arm,conc\nk8,1\n":                    "no column",
		head + "k8,10,99,fast,1,1,1\n":        `line 2: ttft_p90_s is "fast"`,
		head + "k8,10,99,1,1,1,-1\n":          "out_tps",
		head + "k8,10,99,1,1,1\n":             "wrong number of fields",
		head + "k8,10,99,NaN,1,1,1\n":         "ttft_p90_s",
		strings.Replace(head, "conc", "x", 1): "",
	} {
		if _, err := readRows(strings.NewReader(text)); says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}

func FuzzReadRows(f *testing.F) {
	f.Add(head + "k8,10,99.5,25.7,413.2,15168.5,117.5\n")
	f.Add("arm,conc,vttft_p90_s_run7c4b,in_tps_run7c4b\nk8,70,141.8,32786\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(string) ([]row, error){
			func(s string) ([]row, error) { return readRows(strings.NewReader(s)) },
			func(s string) ([]row, error) { return readEngineRows(strings.NewReader(s), sameCampaign) },
		} {
			rows, err := read(text)
			if err != nil {
				continue
			}
			for _, r := range rows {
				if !(r.load >= 0) || !(r.cell.TTFT >= 0) || !(r.cell.Input >= 0) {
					t.Errorf("accepted %+v", r)
				}
			}
		}
	})
}

// Achieved rates scatter around offered ones, some stages are missing, and one rate
// comes twice.
func TestAlign(t *testing.T) {
	ladder := []float64{3, 10, 15, 15, 20, 22, 25, 30, 35, 40}
	for _, test := range []struct{ achieved, want []float64 }{
		{[]float64{3.16, 9.95, 13.33, 14.68, 19.78, 20.91, 24.43, 29.39, 33.57, 38.55}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{[]float64{2.82, 9.39, 14.21, 15.96, 20.31, 21.43, 30.41, 36.77, 39.62}, []float64{0, 1, 2, 3, 4, 5, 7, 8, 9}},
		{[]float64{40}, []float64{9}},
		{nil, nil},
	} {
		got := align(test.achieved, ladder)
		if len(got) != len(test.want) {
			t.Fatalf("%v: %v", test.achieved, got)
		}
		for i := range got {
			if float64(got[i]) != test.want[i] {
				t.Errorf("%v: got %v, want %v", test.achieved, got, test.want)
				break
			}
		}
	}
	if got := align([]float64{1, 2, 3}, []float64{1, 2}); got != nil {
		t.Errorf("three rows on two loads: %v", got)
	}
}

// small is a comparison at three loads; cells are {TTFT, input tokens/s}.
func small(published, simulated [len(arms)][3][2]float64) comparison {
	c := comparison{study: study{name: "trial", pairs: true}, published: newLadder([]float64{1, 2, 3}), simulated: newLadder([]float64{1, 2, 3})}
	for a := range arms {
		for i := range 3 {
			for _, x := range []struct {
				to   *cell
				from [2]float64
			}{{&c.published.cells[a][i], published[a][i]}, {&c.simulated.cells[a][i], simulated[a][i]}} {
				if x.from[0] > 0 {
					x.to.TTFT, x.to.Input, x.to.Success = x.from[0], x.from[1], 1
				}
			}
		}
	}
	return c
}

func TestOrder(t *testing.T) {
	published := [len(arms)][3][2]float64{
		k8s:       {{2, 100}, {4, 100}, {8, 100}},
		tokenLoad: {{1, 110}, {1, 130}, {7.9, 150}},
	}
	c := small(published, published)
	// TTFT differs clearly at loads 1 and 2, throughput at 2 and 3.
	if got := c.clearOrder(ttft, 0); got != (order{2, 2}) {
		t.Errorf("TTFT: %v", got)
	}
	if got := c.clearOrder(func(c cell) float64 { return c.Input }, 2); got != (order{1, 1}) {
		t.Errorf("throughput from load 3: %v", got)
	}
	if got := c.grossOrder(ttft); got != (order{1, 1}) {
		t.Errorf("gross: %v", got)
	}
	wrong := published
	wrong[k8s][1][0] = 0.5
	c = small(published, wrong)
	if got := c.clearOrder(ttft, 0); got != (order{1, 2}) {
		t.Errorf("one wrong: %v", got)
	}
	if got := c.grossOrder(ttft); got != (order{0, 1}) {
		t.Errorf("gross, one wrong: %v", got)
	}
	c.published.cells[k8s][0].Engine = true
	if got := c.clearOrder(ttft, 0); got != (order{0, 1}) {
		t.Errorf("an engine's number was judged: %v", got)
	}
}

func TestKnee(t *testing.T) {
	s := study{}
	for name, test := range map[string]struct {
		cells [3][2]float64
		fails int // load whose success is too low
		want  float64
		most  float64
	}{
		"grows to the end":   {[3][2]float64{{1, 100}, {2, 200}, {3, 300}}, -1, 3, 300},
		"stops growing":      {[3][2]float64{{1, 100}, {2, 200}, {3, 205}}, -1, 2, 205},
		"too slow":           {[3][2]float64{{1, 100}, {2, 200}, {5.1, 300}}, -1, 2, 300},
		"fails":              {[3][2]float64{{1, 100}, {2, 200}, {3, 300}}, 1, 3, 300},
		"fails at the end":   {[3][2]float64{{1, 100}, {2, 200}, {3, 300}}, 2, 2, 300},
		"nothing is missing": {[3][2]float64{{}, {2, 200}, {3, 300}}, -1, 3, 300},
	} {
		c := small([len(arms)][3][2]float64{k8s: test.cells}, [len(arms)][3][2]float64{})
		if test.fails >= 0 {
			c.published.cells[k8s][test.fails].Success = 0.97
		}
		if got := s.knee(c.published, k8s, everywhere); got != test.want {
			t.Errorf("%s: knee at %v, want %v", name, got, test.want)
		}
		if got := s.sustained(c.published, k8s, everywhere); got != test.most {
			t.Errorf("%s: sustained %v, want %v", name, got, test.most)
		}
	}
	if got := s.knee(newLadder([]float64{1}), k8s, everywhere); !math.IsNaN(got) {
		t.Errorf("the knee of nothing is %v", got)
	}
}

// The gateway's delay counts what is on its way, and leaves TPOT alone.
func TestDelay(t *testing.T) {
	requests := []fleet.Outcome{
		{At: 0, TTFT: time.Second, E2E: 10 * time.Second, TPOT: 1, OutputTokens: 5},
		{At: 2 * time.Second, TTFT: time.Second, E2E: 3 * time.Second, TPOT: 1, OutputTokens: 5},
		{At: 4 * time.Second, TTFT: time.Second, E2E: time.Second, TPOT: 1, OutputTokens: 5},
		{At: 20 * time.Second, E2E: time.Second},
	}
	delay(requests, time.Second)
	var got []time.Duration
	for _, r := range requests {
		got = append(got, r.TTFT)
		if r.OutputTokens > 0 && r.TPOT != 1 {
			t.Errorf("TPOT became %v", r.TPOT)
		}
	}
	if want := []time.Duration{1e9, 2e9, 3e9, 0}; !slices.Equal(got, want) {
		t.Errorf("TTFT %v, want %v", got, want)
	}
}

// Each stage of the climb begins after the one before must have drained, with the
// requests that it always had.
func TestClimb(t *testing.T) {
	spec, err := workload.Named("b2b-saas")
	if err != nil {
		t.Fatal(err)
	}
	spaced, plain := apart(spec.Climb(1)), spec.Climb(1)
	if len(spaced.Stages) != len(plain.Stages) {
		t.Fatalf("%d stages of %d", len(spaced.Stages), len(plain.Stages))
	}
	count := func(p workload.Plan) []int {
		n := make([]int, len(p.Stages)+1)
		for s := range p.Sessions {
			i := 0
			for i < len(p.Stages) && !(s.At >= p.Stages[i].From && s.At < p.Stages[i].To) {
				i++
			}
			n[i]++
		}
		return n
	}
	if got, want := count(spaced), count(plain); !slices.Equal(got, want) {
		t.Errorf("requests by stage %v, want %v", got, want)
	}
	for i := 1; i < len(spaced.Stages); i++ {
		if gap := spaced.Stages[i].From - spaced.Stages[i-1].To; gap < spaced.Timeout {
			t.Errorf("stage %d begins %v after the one before", i, gap)
		}
	}
}

// Without a mechanism the world is another one.
func TestMechanismsSwitch(t *testing.T) {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mechanisms {
		w := reality(p)
		m.without(&w)
		if reflect.DeepEqual(w, reality(p)) || m.Fact == "" {
			t.Errorf("%s changes nothing or has no fact", m.Name)
		}
	}
}

// A world asks for the published conversations on the published processes unless it
// is told otherwise.
func TestPlans(t *testing.T) {
	count := func(p workload.Plan) (tokens int) {
		for s := range p.Sessions {
			for _, turn := range s.Turns {
				tokens += turn.PromptTokens
			}
		}
		return tokens
	}
	for _, s := range studies {
		spec, err := workload.Named(s.name)
		if err != nil {
			t.Fatal(err)
		}
		load := spec.Ladder()[0]
		was, err := world{start: time.Second}.plan(spec, 1, load)
		if err != nil || was.Workers != processes(s.name) || was.Timeout == 0 {
			t.Fatalf("%s: %d workers, time-out %v, %v", s.name, was.Workers, was.Timeout, err)
		}
		if spec.Closed && was.Ramp != time.Second/time.Duration(spec.Rounds) {
			t.Errorf("%s: clients begin within %v", s.name, was.Ramp)
		}
		without, err := world{own: true, alone: true, patient: true}.plan(spec, 1, load)
		if err != nil || without.Workers != 0 || without.Timeout != 0 || spec.Closed && without.Ramp != slowStart || count(without) == count(was) {
			t.Errorf("%s: %d workers, time-out %v, ramp %v, as many tokens %t, %v", s.name,
				without.Workers, without.Timeout, without.Ramp, count(without) == count(was), err)
		}
	}
}

// Each seed is judged by itself, a gain once.
func TestSpreads(t *testing.T) {
	flat := [len(arms)][3][2]float64{k8s: {{1, 100}, {1, 200}, {1, 400}}, tokenLoad: {{1, 100}, {1, 200}, {1, 800}}}
	steep := flat
	steep[tokenLoad][2][1] = 400
	c := small(flat, flat)
	c.each = []ladder{c.simulated, small(flat, steep).simulated}
	for _, s := range spreads([]comparison{c}) {
		if len(s.Values) != 2 || strings.HasSuffix(s.Bar, "_max") {
			t.Errorf("%s: %v", s.Bar, s.Values)
		}
		if s.Bar == "published_trial_gain" && !slices.Equal(s.Values, []float64{2, 1}) {
			t.Errorf("gains %v, want 2 and 1", s.Values)
		}
	}
}
