package fit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
)

// All is the group that every row is in.
const All = "all"

// CrossSteadyStates predicts every row from a fit without the rows of its
// fold, of which there are five. All measurements of one setting (prompt,
// output, clients) are in one fold, so that a repetition is never on both
// sides. Groups: All, the prompt and output length, and the regime: "batch
// 1-8", "batch 9-32", "batch 33+" and "cache full", which the settings and the
// fit decide, never the measured times. The error is that of the first fold
// that could not be fitted.
func CrossSteadyStates(rows []measured.SteadyState) (Errors, error) {
	type setting struct{ prompt, output, clients float64 }
	of := func(r measured.SteadyState) setting { return setting{r.PromptTokens, r.OutputTokens, r.Concurrency} }
	var settings []setting
	for _, r := range rows {
		settings = append(settings, of(r))
	}
	fold := shuffled(settings, func(a, b setting) int {
		return cmp.Or(cmp.Compare(a.prompt, b.prompt), cmp.Compare(a.output, b.output), cmp.Compare(a.clients, b.clients))
	})
	return crossSteadyStates(rows, folds, func(r measured.SteadyState) int { return fold[of(r)] })
}

// CrossShapes is the harder test: every row is predicted from a fit to rows of
// other prompt and output lengths alone. It needs three of them or more.
func CrossShapes(rows []measured.SteadyState) (Errors, error) {
	var shapes []string
	for _, r := range rows {
		if s := shape(r); !slices.Contains(shapes, s) {
			shapes = append(shapes, s)
		}
	}
	if len(shapes) < 3 {
		return Errors{}, fmt.Errorf("%d shapes of prompt and output: want at least 3", len(shapes))
	}
	return crossSteadyStates(rows, len(shapes), func(r measured.SteadyState) int { return slices.Index(shapes, shape(r)) })
}

func shape(r measured.SteadyState) string {
	return fmt.Sprintf("%g/%g", r.PromptTokens, r.OutputTokens)
}

func crossSteadyStates(rows []measured.SteadyState, folds int, fold func(measured.SteadyState) int) (Errors, error) {
	var all Errors
	for k := range folds {
		train, test := split(rows, func(_ int, r measured.SteadyState) bool { return fold(r) == k })
		if len(test) == 0 {
			continue
		}
		s, err := SteadyStates(train)
		if err != nil {
			return all, fmt.Errorf("without fold %d: %w", k+1, err)
		}
		for _, r := range test {
			all.Add(s.Predict(r), feature.Prior{TTFT: r.TTFT, TPOT: r.TPOT}, All, s.regime(r), shape(r))
		}
	}
	return all, nil
}

// regime names the load of a row, by what was set.
func (s *Steady) regime(r measured.SteadyState) string {
	switch {
	case s.Full(r):
		return "cache full"
	case r.Concurrency <= 8:
		return "batch 1-8"
	case r.Concurrency <= 32:
		return "batch 9-32"
	}
	return "batch 33+"
}
