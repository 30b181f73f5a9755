package simulate

import (
	"context"
	"fmt"
)

// Report is what simulation says of a log.
type Report struct {
	Log      Log      `json:"log"`
	Seeds    []uint64 `json:"seeds"`
	Check    *Check   `json:"check"`
	Anyway   bool     `json:"anyway"`   // others were asked for although the check failed
	Settings []Judged `json:"settings"` // empty where the check failed
}

// Judged is what one setting would have come to.
type Judged struct {
	Name    string   `json:"name"`
	Metrics Metrics  `json:"metrics"` // means over the seeds
	Effects []Effect `json:"effects"` // against the replay of the logged policy
}

// Try is a setting under a name.
type Try struct {
	Name    string
	Setting Setting
}

// Report checks the model and, where it may be believed or anyway is set, tries
// settings, each with all seeds. run makes the runs of one setting; nil: Run.
func (m *Model) Report(ctx context.Context, tries []Try, seeds []uint64, anyway bool, run func(context.Context, Setting) ([]Result, error)) (Report, error) {
	if run == nil {
		run = func(ctx context.Context, s Setting) ([]Result, error) { return m.Run(ctx, s, seeds) }
	}
	r := Report{Log: m.Log(), Seeds: seeds}
	base, err := run(ctx, Setting{})
	if err != nil {
		return r, err
	}
	r.Check = m.Against(base)
	if !r.Check.Trusted && !anyway {
		return r, nil
	}
	r.Anyway = !r.Check.Trusted
	for _, t := range tries {
		runs, err := run(ctx, t.Setting)
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.Name, err)
		}
		r.Settings = append(r.Settings, Judged{Name: t.Name, Metrics: meanOf(runs), Effects: Compare(base, runs, r.Check)})
	}
	return r, nil
}
