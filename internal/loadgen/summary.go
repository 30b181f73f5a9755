package loadgen

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Quantiles describe one latency over the requests that went well, in seconds.
type Quantiles struct {
	N    int     `json:"n"`
	Mean Measure `json:"mean"`
	P50  Measure `json:"p50"`
	P90  Measure `json:"p90"`
	P99  Measure `json:"p99"`
}

// Summary is the result of a run. In an open loop TTFT and E2E count from when
// a request was meant to leave, so that a client that falls behind hides
// nothing; Late is the part of them that is the client's own.
type Summary struct {
	Schema      int            `json:"schema_version"`
	Sent        int            `json:"sent"` // all but those that overran
	OK          int            `json:"ok"`
	Failed      int            `json:"failed"`    // all but those ok or canceled
	FailedBy    map[Status]int `json:"failed_by"` // by how they ended
	Canceled    int            `json:"canceled"`
	Interrupted bool           `json:"interrupted"`
	Elapsed     Measure        `json:"elapsed"` // seconds
	TTFT        Quantiles      `json:"ttft"`
	TPOT        Quantiles      `json:"tpot"`
	E2E         Quantiles      `json:"e2e"`
	Late        Quantiles      `json:"late"`
	// PromptTokens and OutputTokens are sums over requests that went well, the
	// rates those sums over the elapsed time.
	PromptTokens int     `json:"prompt_tokens"`
	OutputTokens int     `json:"output_tokens"`
	PromptRate   Measure `json:"prompt_tokens_per_second"`
	OutputRate   Measure `json:"output_tokens_per_second"`
	// HitRate is the fraction of prompt tokens that engines found in their
	// prefix caches, over the requests that report it.
	HitRate Measure `json:"hit_rate"`
}

// Summarize returns the summary of records that were collected elsewhere, for
// example of one phase of a run.
func Summarize(records iter.Seq[Record], elapsed time.Duration) Summary {
	var t tally
	for r := range records {
		t.add(r)
	}
	return t.summary(elapsed)
}

// tally collects what a summary needs of each record.
type tally struct {
	ended                map[Status]int
	ttft, tpot, e2e      []float64
	late                 []float64
	prompt, output       int
	cachedOf, cachedSeen int
}

func (t *tally) add(r Record) {
	if t.ended == nil {
		t.ended = map[Status]int{}
	}
	t.ended[r.Status]++
	if r.Status != OK {
		return
	}
	late := Measure(0)
	if !math.IsNaN(float64(r.Late)) {
		late = r.Late
		t.late = append(t.late, float64(late))
	}
	keep := func(list *[]float64, v Measure) {
		if !math.IsNaN(float64(v)) {
			*list = append(*list, float64(v))
		}
	}
	keep(&t.ttft, r.TTFT+late)
	keep(&t.tpot, r.TPOT)
	keep(&t.e2e, r.E2E+late)
	t.prompt += int(max(r.PromptTokens, 0))
	t.output += int(max(r.OutputTokens, 0))
	if r.CachedTokens >= 0 && r.PromptTokens > 0 {
		t.cachedSeen += int(r.CachedTokens)
		t.cachedOf += int(r.PromptTokens)
	}
}

func (t *tally) summary(elapsed time.Duration) Summary {
	s := Summary{
		Schema: Schema, FailedBy: map[Status]int{}, Elapsed: Measure(elapsed.Seconds()),
		TTFT: quantiles(t.ttft), TPOT: quantiles(t.tpot), E2E: quantiles(t.e2e), Late: quantiles(t.late),
		PromptTokens: t.prompt, OutputTokens: t.output,
		PromptRate: ratio(float64(t.prompt), elapsed.Seconds()),
		OutputRate: ratio(float64(t.output), elapsed.Seconds()),
		HitRate:    ratio(float64(t.cachedSeen), float64(t.cachedOf)),
	}
	for status, n := range t.ended {
		if status != Overrun {
			s.Sent += n
		}
		switch status {
		case OK:
			s.OK = n
		case Canceled:
			s.Canceled = n
		default:
			s.Failed += n
			s.FailedBy[status] = n
		}
	}
	return s
}

func ratio(a, b float64) Measure {
	if b <= 0 {
		return unknown
	}
	return Measure(a / b)
}

// quantiles sorts v and takes nearest ranks: the smallest value that at least
// that fraction of values do not exceed.
func quantiles(v []float64) Quantiles {
	q := Quantiles{N: len(v), Mean: unknown, P50: unknown, P90: unknown, P99: unknown}
	if len(v) == 0 {
		return q
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	rank := func(percent int) Measure { return Measure(v[(len(v)*percent+99)/100-1]) }
	q.Mean, q.P50, q.P90, q.P99 = Measure(sum/float64(len(v))), rank(50), rank(90), rank(99)
	return q
}

// String returns the summary as a table for people.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sent, %d ok, %d failed", s.Sent, s.OK, s.Failed)
	if s.Failed > 0 {
		var kinds []string
		for _, status := range slices.Sorted(maps.Keys(s.FailedBy)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", status, s.FailedBy[status]))
		}
		fmt.Fprintf(&b, " (%s)", strings.Join(kinds, ", "))
	}
	if s.Canceled > 0 {
		fmt.Fprintf(&b, ", %d canceled", s.Canceled)
	}
	fmt.Fprintf(&b, " in %.1f s", float64(s.Elapsed))
	if s.Interrupted {
		b.WriteString(", interrupted")
	}
	b.WriteString("\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tp50\tp90\tp99\tmean\tn\t")
	for _, row := range []struct {
		name  string
		unit  string
		scale float64
		q     Quantiles
	}{{"TTFT", "s", 1, s.TTFT}, {"TPOT", "ms", 1000, s.TPOT}, {"E2E", "s", 1, s.E2E}, {"late", "ms", 1000, s.Late}} {
		fmt.Fprintf(w, "%s, %s\t%s\t%s\t%s\t%s\t%d\t\n", row.name, row.unit,
			show(row.q.P50, row.scale), show(row.q.P90, row.scale), show(row.q.P99, row.scale), show(row.q.Mean, row.scale), row.q.N)
	}
	_ = w.Flush() // into memory
	fmt.Fprintf(&b, "\n%s prompt tokens/s, %s output tokens/s, prefix hit rate %s %%\n",
		show(s.PromptRate, 1), show(s.OutputRate, 1), show(s.HitRate, 100))
	return b.String()
}

func show(m Measure, scale float64) string {
	v := float64(m) * scale
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
