package physics

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Coefficients are the step model of one (LLM, endpoint class). All are in
// seconds and non-negative.
type Coefficients struct {
	A float64 `json:"a" yaml:"a"` // per step
	B float64 `json:"b" yaml:"b"` // per prefill token
	C float64 `json:"c" yaml:"c"` // per prefill token and token of its context
	D float64 `json:"d" yaml:"d"` // per decoding sequence
	E float64 `json:"e" yaml:"e"` // per context token read by decoding sequences
}

// Scaled returns c for an engine that is factor times slower.
func (c Coefficients) Scaled(factor float64) Coefficients {
	return Coefficients{c.A * factor, c.B * factor, c.C * factor, c.D * factor, c.E * factor}
}

// Check reports a coefficient that no engine can have.
func (c Coefficients) Check() error {
	for _, x := range []struct {
		name  string
		value float64
	}{{"a", c.A}, {"b", c.B}, {"c", c.C}, {"d", c.D}, {"e", c.E}} {
		if !(x.value >= 0) || x.value > 60 {
			return fmt.Errorf("coefficient %s is %v: want seconds from 0 to 60", x.name, x.value)
		}
	}
	if c.A+c.B <= 0 {
		return fmt.Errorf("coefficients a and b are both 0: a step would take no time")
	}
	return nil
}

// Profile describes one engine: how fast it is and how much it holds.
type Profile struct {
	Name                  string       `json:"name"`
	Source                string       `json:"source"` // where each number comes from
	Coefficients          Coefficients `json:"coefficients"`
	MaxBatchedTokens      int          `json:"max_batched_tokens"`      // token budget of one step
	MaxNumSeqs            int          `json:"max_num_seqs"`            // most sequences in one batch
	KVCapacityTokens      int          `json:"kv_capacity_tokens"`      // tokens the KV cache holds
	BlockTokens           int          `json:"block_tokens"`            // tokens in one cache block
	PeakPrefillThroughput float64      `json:"peak_prefill_throughput"` // tokens/s through the full path
	NoiseStdDev           float64      `json:"noise_std_dev"`           // of the relative step time; used by the simulator only

	// Overhead is what a request spends outside the engine's steps: front
	// door, tokenizer, network; 0 when not known. Used by the simulator only.
	Overhead feature.Seconds `json:"overhead,omitempty"`
}

// Slowed returns p made factor times slower, under a name that says so
// ("-x1.8"). Capacity stays.
func (p Profile) Slowed(factor float64) Profile {
	if factor == 1 {
		return p
	}
	p.Name = fmt.Sprintf("%s-x%g", p.Name, factor)
	p.Source = fmt.Sprintf("%s; all times multiplied by %g", p.Source, factor)
	p.Coefficients = p.Coefficients.Scaled(factor)
	p.PeakPrefillThroughput /= factor
	p.Overhead *= feature.Seconds(factor)
	return p
}

// Check reports what makes p unusable.
func (p Profile) Check() error {
	if err := p.Coefficients.Check(); err != nil {
		return fmt.Errorf("profile %s: %w", p.Name, err)
	}
	for _, x := range []struct {
		name  string
		value float64
	}{
		{"max_batched_tokens", float64(p.MaxBatchedTokens)},
		{"max_num_seqs", float64(p.MaxNumSeqs)},
		{"kv_capacity_tokens", float64(p.KVCapacityTokens)},
		{"block_tokens", float64(p.BlockTokens)},
		{"peak_prefill_throughput", p.PeakPrefillThroughput},
	} {
		if !(x.value > 0) {
			return fmt.Errorf("profile %s: %s is %v: want a positive number", p.Name, x.name, x.value)
		}
	}
	if !(p.NoiseStdDev >= 0 && p.NoiseStdDev < 1) {
		return fmt.Errorf("profile %s: noise_std_dev is %v: want 0 to 1", p.Name, p.NoiseStdDev)
	}
	if !(p.Overhead >= 0 && p.Overhead <= 60) {
		return fmt.Errorf("profile %s: overhead is %v: want seconds from 0 to 60", p.Name, p.Overhead)
	}
	return nil
}

// maxProfile is the most bytes a profile's file may have.
const maxProfile = 1 << 20

// Load reads one profile, a JSON object with the keys of the built-in ones.
// The error names the key that is unknown or wrong.
func Load(r io.Reader) (Profile, error) {
	var p Profile
	text, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return p, fmt.Errorf("read profile: %w", err)
	}
	if len(text) > maxProfile {
		return p, fmt.Errorf("profile is longer than %d bytes", maxProfile)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return Profile{}, fmt.Errorf("profile: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Profile{}, fmt.Errorf("profile %s: something follows the JSON object", p.Name)
	}
	if p.Name == "" {
		return Profile{}, fmt.Errorf("profile: name is missing")
	}
	return p, p.Check()
}

//go:embed profiles.json
var profilesJSON []byte

var builtin = func() []Profile {
	var ps []Profile
	dec := json.NewDecoder(bytes.NewReader(profilesJSON))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ps); err != nil {
		panic("profiles.json: " + err.Error())
	}
	return ps
}()

// Profiles returns the profiles that come with the program.
func Profiles() []Profile { return append([]Profile(nil), builtin...) }

// Named returns a built-in profile. A suffix "-xN" slows it by the factor N.
func Named(name string) (Profile, error) {
	base, factor := name, 1.0
	if i := strings.LastIndex(name, "-x"); i >= 0 {
		if f, err := strconv.ParseFloat(name[i+2:], 64); err == nil && f > 0 && !math.IsInf(f, 1) {
			base, factor = name[:i], f
		}
	}
	var names []string
	for _, p := range builtin {
		if p.Name == base {
			return p.Slowed(factor), nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("no profile %q: want one of %s, with -xN to slow it by N", name, strings.Join(names, ", "))
}
