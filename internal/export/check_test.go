package export_test

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
)

// What no router can have written is told with its column.
func TestCheck(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	good := func() *export.Row {
		unknown := feature.Seconds(feature.Unknown)
		return &export.Row{
			Decision: feature.Decision{
				ID: feature.ID{1}, DecidedAt: now.Add(-time.Hour), Schema: feature.Schema, Propensity: 1,
				Candidates: []feature.Candidate{{Endpoint: "a:1", Probability: 1}, {Endpoint: "b:1", Probability: feature.Unknown}},
			},
			Outcome: feature.Outcome{Attempt: 1, Status: feature.OK, TTFT: 0, TPOT: unknown, E2E: 2, CensoredAt: unknown},
		}
	}
	if err := good().Check(now); err != nil {
		t.Errorf("a good row: %v", err)
	}
	for _, c := range []struct {
		change func(*feature.Decision, *feature.Outcome)
		says   string
	}{
		{func(d *feature.Decision, _ *feature.Outcome) { d.ID = feature.ID{} }, "column decision: "},
		{func(d *feature.Decision, _ *feature.Outcome) { d.DecidedAt = time.Time{} }, "column decided_at: "},
		{func(d *feature.Decision, _ *feature.Outcome) { d.DecidedAt = now.Add(25 * time.Hour) }, `"2026-06-02T01:00:00Z" is no time of a decision`},
		{func(d *feature.Decision, _ *feature.Outcome) { d.LLM = strings.Repeat("x", 257) }, "column llm: "},
		{func(d *feature.Decision, _ *feature.Outcome) { d.PromptTokens = math.Inf(1) }, "column prompt_tokens: +Inf is no number of tokens"},
		{func(d *feature.Decision, _ *feature.Outcome) { d.ExpectedOutputTokens = -1 }, "column expected_output_tokens: "},
		{func(_ *feature.Decision, o *feature.Outcome) { o.OutputTokens = -1 }, "column output_tokens: "},
		{func(_ *feature.Decision, o *feature.Outcome) { o.CachedTokens = -1 }, "column cached_tokens: "},
		{func(d *feature.Decision, _ *feature.Outcome) { d.Schema[0]++ }, "column schema: its vector is of schema "},
		{func(d *feature.Decision, _ *feature.Outcome) { d.Propensity = 1.5 }, "column propensity: 1.5 is no probability"},
		{func(d *feature.Decision, _ *feature.Outcome) { d.Candidates[1].Probability = -1 }, `column candidates: -1 is no probability, of "b:1"`},
		{func(d *feature.Decision, _ *feature.Outcome) { d.Rest = -1 }, "column rest: -1"},
		{func(_ *feature.Decision, o *feature.Outcome) { o.Attempt = 0 }, `column status: "ok" does not go with attempt 0`},
		{func(_ *feature.Decision, o *feature.Outcome) { o.Status = "" }, "column status: "},
		{func(_ *feature.Decision, o *feature.Outcome) { o.TTFT = -1 }, "column ttft: -1 s can't have passed"},
		{func(_ *feature.Decision, o *feature.Outcome) { o.TPOT = -1 }, "column tpot: "},
		{func(_ *feature.Decision, o *feature.Outcome) { o.E2E = feature.Seconds(math.Inf(1)) }, "column e2e: "},
		{func(_ *feature.Decision, o *feature.Outcome) { o.CensoredAt = -2 }, "column censored_at: "},
	} {
		r := good()
		c.change(&r.Decision, &r.Outcome)
		if err := r.Check(now); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
}

// A number that the store can't keep is refused by both formats.
func TestNumbersOfTheStore(t *testing.T) {
	for _, f := range formats {
		file, err := f.write([]export.Row{{}, {Decision: feature.Decision{Priority: 1 << 31}}})
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range f.read(file) {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), "column priority: ") || !strings.Contains(last.Error(), "out of range") {
			t.Errorf("%s: %v", f.name, last)
		}
	}
}

// endless is as many bytes of the letter a as anybody reads.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	e.read += len(p)
	return len(p), nil
}

// A quote that is never closed does not take the whole file into memory.
func TestLongRecord(t *testing.T) {
	var names []string
	for _, c := range export.Columns() {
		names = append(names, c.Name)
	}
	rest := &endless{}
	var last error
	for _, err := range export.ReadCSV(io.MultiReader(strings.NewReader(strings.Join(names, ",")+"\n\""), rest)) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "row 1: it has more than 32 MiB") || rest.read > 64<<20 {
		t.Errorf("%v after %d bytes", last, rest.read)
	}
}
