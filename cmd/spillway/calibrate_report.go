package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// calibrated is a measured engine.
type calibrated struct {
	URL    string    `json:"url"`
	LLM    string    `json:"llm"`
	Engine string    `json:"engine"` // as it calls itself; may be empty
	At     time.Time `json:"at"`
	calibrate.Fitted
	Published    published              `json:"published"`
	Measurements calibrate.Measurements `json:"measurements"`
	Profile      physics.Profile        `json:"profile"`
	Notes        []string               `json:"notes"`
	Stored       int64                  `json:"stored,omitempty"` // id of the calibration in the store
}

// published is what others measured of the nearest path.
type published struct {
	calibrate.Published
	SameLLM bool    `json:"same_llm"`
	Ratio   float64 `json:"ratio"` // measured here over published
}

// tellingLengths is how many prompt lengths it takes for one of them to test a
// fit to the others: four settle the numbers of prefill, the overhead and the
// three costs.
const tellingLengths = 5

// note says what the numbers rest on that was not measured.
func (r *calibrated) note(given, told, used fit.Limits) {
	say := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if given.MaxBatchedTokens == 0 && told.MaxBatchedTokens == 0 {
		say("a token budget of %d is assumed, no engine tells it: --max-batched-tokens", used.MaxBatchedTokens)
	}
	if given.MaxNumSeqs == 0 && told.MaxNumSeqs == 0 {
		say("at most %d sequences in a batch are assumed: --max-num-seqs", used.MaxNumSeqs)
	}
	lengths := 0
	for _, p := range r.Points {
		if !p.Decode {
			lengths++
		}
		if !p.Decode && p.CachedTokens > 0.01*p.PromptTokens {
			say("of prompts of %.0f tokens, %.0f were found in a cache", p.PromptTokens, p.CachedTokens)
		}
	}
	if lengths < tellingLengths {
		say("%d prompt lengths just settle the fit, so the errors of those left out say little: give %d or more --sizes", lengths, tellingLengths)
	}
	for _, d := range r.Measurements.Decodes {
		if d.TokensPerStep > 1.05 {
			say("%.2f tokens come in one event: the engine speculates, or something gathers them", d.TokensPerStep)
			break
		}
	}
}

// title names what was measured.
func (r *calibrated) title(hardware string) string {
	parts := []string{r.LLM}
	for _, part := range []string{hardware, r.Engine} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

func (r *calibrated) print(w io.Writer) error {
	ms := func(s feature.Seconds) string { return fmt.Sprintf("%.2f ms", 1000*float64(s)) }
	percent := func(v float64) string { return fmt.Sprintf("%+.1f %%", 100*v) }
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "prompt tokens\tsamples\tT(B)\tB/T(B)\tfitted\toff\tleft out\t")
	for _, p := range r.Points {
		if !p.Decode {
			fmt.Fprintf(tw, "%.0f\t%d\t%s\t%.0f/s\t%s\t%s\t%s\t\n", p.PromptTokens, p.Samples, ms(p.Measured), p.PromptTokens/float64(p.Measured), ms(p.Fitted), percent(p.Error()), percent(p.HeldOutError()))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\ndecoding\tcontext read\tsamples\tTPOT\tfitted\toff\tleft out\t")
	for _, p := range r.Points {
		if p.Decode {
			fmt.Fprintf(tw, "%d\t%.0f\t%d\t%s\t%s\t%s\t%s\t\n", p.Sequences, p.Context, p.Samples, ms(p.Measured), ms(p.Fitted), percent(p.Error()), percent(p.HeldOutError()))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	q, n := r.Peak.Quadratic, r.Published
	fmt.Fprintf(w, "\npeak prefill throughput %.0f tokens/s: median of %d prompts of %.0f tokens\n", r.Peak.Throughput, r.Peak.Prompts, r.Peak.PromptTokens)
	fmt.Fprintf(w, "quadratic fit           %.0f tokens/s: T(B) = %.3g + %.3g B + %.3g B^2 seconds\n", r.Peak.Fit, q.A, q.B, q.C)
	fmt.Fprintf(w, "published, %-12s %.0f tokens/s: %s; measured is %.2f of it\n", map[bool]string{true: "same LLM", false: "other LLM"}[n.SameLLM], n.Throughput, n.path(), n.Ratio)
	fmt.Fprintf(w, "tokens per byte         %.4f of English words, and %.0f around a prompt: router.tokens_per_byte\n", r.Tokenizer.TokensPerByte, r.Tokenizer.Template)
	if r.Stored != 0 {
		fmt.Fprintf(w, "stored                  calibration %d\n", r.Stored)
	}
	text, err := json.MarshalIndent(r.Profile, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// path says of what the published number is.
func (p *published) path() string {
	s := fmt.Sprintf("%s on %s, %s", p.LLM, p.Hardware, p.Engine)
	if p.Version != "" {
		s += " " + p.Version
	}
	s += fmt.Sprintf(", B = %d", p.BudgetTokens)
	if p.Note != "" {
		s += " (" + p.Note + ")"
	}
	return s
}
