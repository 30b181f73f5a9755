package measure

import (
	"errors"
	"math"
	"testing"
	"time"
)

// begun is when the streams of the test below were dispatched.
var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stream is a reply whose events came at these milliseconds, with so many
// tokens each.
func stream(prompt, perEvent int, at ...float64) reply {
	r := reply{dispatched: begun, prompt: prompt, output: perEvent * len(at)}
	for i, ms := range at {
		r.marks = append(r.marks, mark{begun.Add(time.Duration(ms * 1e6)), i + 1})
	}
	return r
}

// every is n times from a first one on.
func every(first, step float64, n int) []float64 {
	var at []float64
	for i := range n {
		at = append(at, first+step*float64(i))
	}
	return at
}

// Only the steps count in which every sequence decodes: not those that computed
// a sibling's prompt before, nor the quicker ones after the first has ended.
func TestTogether(t *testing.T) {
	early := append(every(100, 500, 4), append(every(1610, 10, 12), every(1727, 5, 50)...)...) // 1,600 is its last slow step
	middle := append([]float64{1100}, append(every(1600.5, 10, 13), every(1727, 5, 20)...)...) // a reader may be late by a little
	late := every(1600, 10, 13)
	d, err := together([]reply{stream(1000, 1, early...), stream(2000, 1, middle...), stream(3000, 1, late...)})
	if err != nil {
		t.Fatal(err)
	}
	if got := float64(d.TPOT); math.Abs(got-0.010) > 1e-9 {
		t.Errorf("TPOT is %v s, want 0.010", got)
	}
	if d.Sequences != 3 || d.Steps < 11 || d.Steps > 12 || d.TokensPerStep != 1 {
		t.Errorf("measured %+v", d)
	}
	// Half of what came, beside what came before: 4 + 6, 1 + 7, 7 tokens.
	if want := 6000.0 + 10 + 8 + 7; math.Abs(d.ContextTokens-want) > 2 {
		t.Errorf("%v tokens of context, want about %v", d.ContextTokens, want)
	}
}

// Where an event carries several tokens, the time between tokens is theirs.
func TestTogetherOfSpeculation(t *testing.T) {
	d, err := together([]reply{stream(10, 3, every(0, 30, 20)...), stream(10, 3, every(0, 30, 20)...)})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(d.TPOT)-0.010) > 1e-9 || d.TokensPerStep != 3 || d.Steps != 19 || d.ContextTokens != 2*(10+3*10.5) {
		t.Errorf("measured %+v", d)
	}
}

func TestTogetherNeedsSteps(t *testing.T) {
	for name, replies := range map[string][]reply{
		"one ends before another begins": {stream(10, 1, every(0, 10, 20)...), stream(10, 1, every(500, 10, 20)...)},
		"few":                            {stream(10, 1, every(0, 10, 20)...), stream(10, 1, every(150, 10, 20)...)},
		"all at once":                    {stream(10, 20, 5)},
	} {
		if _, err := together(replies); !errors.Is(err, ErrSteps) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
