package design

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/splitmix"
)

// Switchback gives all requests of a block of time to one arm. Blocks stand in
// pairs, in which each arm has one; which of them comes first is drawn for every
// pair, so that neither drift over hours nor an arm's habit of coming second can
// look like an effect.
type Switchback struct {
	Name  string    // of the experiment
	Start time.Time // of the first block, to the microsecond
	Block time.Duration
	// BurnIn is how much of the beginning of each block tells still of the block
	// before it, and is left out of an analysis.
	BurnIn time.Duration
	Pairs  int
	Seed   uint64
	Arms   [2]string // the baseline first
}

// Of a switchback.
const (
	// LeastBlock is the shortest block.
	LeastBlock = time.Second
	// MostPairs bounds an experiment.
	MostPairs = 100_000
	// mostName bounds what is in every row of an experiment, in bytes.
	mostName = 64
)

// Check reports the first setting that can't work, by its key.
func (s *Switchback) Check() error {
	if err := checkName(s.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if err := checkArms(s.Arms); err != nil {
		return fmt.Errorf("arms: %w", err)
	}
	for _, x := range []struct {
		wrong string
		ok    bool
	}{
		{fmt.Sprintf("name: %q stands for canaries: want another", CanaryName), s.Name != CanaryName},
		{"start: is missing; want the time of the first block, such as 2026-12-01T09:00:00Z", !s.Start.IsZero()},
		{"start: want whole microseconds", s.Start.Equal(s.Start.Truncate(time.Microsecond))},
		{fmt.Sprintf("block: %v is too short: want at least %v, and in earnest longer than requests take to drain and caches to turn over", s.Block, LeastBlock), s.Block >= LeastBlock},
		{"block: want whole microseconds", s.Block%time.Microsecond == 0},
		{"burn_in: must not be negative", s.BurnIn >= 0},
		{fmt.Sprintf("burn_in: %v leaves less than half of a block of %v to be judged", s.BurnIn, s.Block), s.BurnIn <= s.Block/2},
		{fmt.Sprintf("pairs: %d is not from 1 to %d", s.Pairs, MostPairs), s.Pairs >= 1 && s.Pairs <= MostPairs},
		{"block: with so many pairs the experiment takes longer than 10 years", s.Pairs < 1 || s.Block <= longest/time.Duration(2*max(1, s.Pairs))},
	} {
		if !x.ok {
			return errors.New(x.wrong)
		}
	}
	return nil
}

const longest = 10 * 365 * 24 * time.Hour

// Place is where a moment lies in a switchback.
type Place struct {
	Block int           // from 0
	Arm   int           // 0 or 1: of Arms
	Into  time.Duration // since the block began
	Kept  bool          // the burn-in is over
}

// Pair is the number of the pair that the block belongs to.
func (p Place) Pair() int { return p.Block / 2 }

// At finds where t lies; false before the start and from the end on.
func (s *Switchback) At(t time.Time) (Place, bool) {
	since := time.UnixMicro(t.UnixMicro()).Sub(s.Start) // by the wall clock, as rows tell it
	block := int(since / s.Block)
	if since < 0 || block >= 2*s.Pairs {
		return Place{}, false
	}
	into := since - time.Duration(block)*s.Block
	return Place{Block: block, Arm: s.Arm(block), Into: into, Kept: into >= s.BurnIn}, true
}

// Arm is which arm has a block: 0 or 1.
func (s *Switchback) Arm(block int) int {
	second := int(splitmix.Mix(s.Seed, hash(s.Name), uint64(block/2)) & 1)
	return second ^ block&1
}

// End is when the last block ends.
func (s *Switchback) End() time.Time { return s.Start.Add(time.Duration(2*s.Pairs) * s.Block) }

// Kept is how long a block is without its burn-in.
func (s *Switchback) Kept() time.Duration { return s.Block - s.BurnIn }

// hash is FNV-1a.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// checkName reports a name that does not fit into a design's text.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > mostName:
		return fmt.Errorf("%q has %d bytes, want at most %d", name, len(name), mostName)
	case strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(nameable, r) }):
		return fmt.Errorf("%q: want letters, digits and any of -_.,:=+/ without blanks", name)
	}
	return nil
}

const nameable = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:=+/"

func checkArms(arms [2]string) error {
	for _, name := range arms {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if arms[0] == arms[1] {
		return fmt.Errorf("both are named %q: nothing would tell them apart", arms[0])
	}
	return nil
}
