package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// DecidesAlike reports whether this build's policy of that name decides as the one
// of a version did, so that the rows of that version hold all that it reads: all
// that don't forecast decide as they ever did, and predictor-blend as since version 3.
func DecidesAlike(version int, policy string) bool {
	switch {
	case version < 1 || version > Version:
		return false
	case policy == Predicted:
		return version == Version
	case policy == PredictorBlend:
		return version >= 3
	}
	return true
}

// Replay makes the Input of a complete stored decision again.
func Replay(stored *feature.Decision) (*Input, error) {
	if !stored.Complete {
		return nil, fmt.Errorf("decision %s is not complete: it holds %d of %d candidates", stored.ID, len(stored.Candidates), len(stored.Candidates)+stored.Rest)
	}
	if !DecidesAlike(stored.PolicyVersion, stored.Policy) {
		return nil, fmt.Errorf("decision %s was made by version %d of the policies, this build has %d", stored.ID, stored.PolicyVersion, Version)
	}
	if len(stored.States) == 0 {
		return nil, fmt.Errorf("decision %s has no states: it comes from a file without candidates", stored.ID)
	}
	in, err := Decode(stored.States)
	if err != nil {
		return nil, fmt.Errorf("decision %s: %w", stored.ID, err)
	}
	if in.tosses() && !DecidesAlike(stored.PolicyVersion, in.Policy) {
		return nil, fmt.Errorf("decision %s is of a canary of version %d of the policies, whose probabilities are those of %s too, and this build has version %d", stored.ID, stored.PolicyVersion, in.Policy, Version)
	}
	if len(in.Candidates) != len(stored.Candidates) {
		return nil, fmt.Errorf("decision %s: %d candidates stored, states for %d", stored.ID, len(stored.Candidates), len(in.Candidates))
	}
	in.Seed = stored.Seed
	for i := range in.Candidates {
		in.Candidates[i].Endpoint = stored.Candidates[i].Endpoint
		in.Candidates[i].Class = stored.Candidates[i].Class
	}
	return in, nil
}

// Same reports how a choice made again from the Input that Replay returned
// differs from the stored one: another endpoint, or a probability that is not
// the same to the bit.
func Same(stored *feature.Decision, in *Input, again *Choice) error {
	chosen := ""
	if again.Index >= 0 {
		chosen = in.Candidates[again.Index].Endpoint
	}
	if chosen != stored.Chosen {
		return fmt.Errorf("deciding again chooses %q, stored is %q", chosen, stored.Chosen)
	}
	if len(again.Probabilities) != len(stored.Candidates) {
		return errors.New("deciding again has another number of candidates")
	}
	for i, p := range again.Probabilities {
		if was := stored.Candidates[i].Probability; math.Float64bits(p) != math.Float64bits(was) {
			return fmt.Errorf("deciding again gives %s the probability %v, stored is %v", in.Candidates[i].Endpoint, p, was)
		}
	}
	return nil
}
