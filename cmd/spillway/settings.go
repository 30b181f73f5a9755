package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/spillway-llm/spillway/router/policy"
)

// setUse is what --set is for.
const setUse = "another value of a key of router.settings, such as predicted_ttft_penalty=2; may be given again"

// otherSettings are the flags of verbs that try other values of router.settings
// on a log.
type otherSettings struct {
	penalty  time.Duration
	explores float64
	set      []string
}

// register adds the flags. as says where values come from that are not given.
func (o *otherSettings) register(f *pflag.FlagSet, as string) {
	f.DurationVar(&o.penalty, "max-ttft-penalty", 0, "valve of the matched configurations (default: as "+as+")")
	f.Float64Var(&o.explores, "exploration", 0, "probability of exploring (default: as "+as+")")
	f.StringArrayVar(&o.set, "set", nil, setUse)
}

// change is what was given, nil where nothing was; errors name the flag. Afterwards
// set holds all of it.
func (o *otherSettings) change(given func(flag string) bool) (func(*policy.Settings), error) {
	if given("max-ttft-penalty") {
		if o.penalty < 0 {
			return nil, fmt.Errorf("--max-ttft-penalty: %v is negative", o.penalty)
		}
		o.set = append(o.set, fmt.Sprintf("max_ttft_penalty=%v", o.penalty.Seconds()))
	}
	if given("exploration") {
		if !(o.explores >= 0 && o.explores <= 1) {
			return nil, fmt.Errorf("--exploration: %g is no probability", o.explores)
		}
		o.set = append(o.set, fmt.Sprintf("exploration=%v", o.explores))
	}
	return changeOfSettings(o.set)
}

// changeOfSettings turns what was given with --set, KEY=NUMBER each, into a
// change; nil where nothing was.
func changeOfSettings(set []string) (func(*policy.Settings), error) {
	if len(set) == 0 {
		return nil, nil
	}
	var all [][]byte // JSON that sets a key
	keys := settingKeys()
	for _, s := range set {
		key, value, _ := strings.Cut(s, "=")
		if !slices.Contains(keys, key) {
			return nil, fmt.Errorf("--set %s: no key %q in router.settings: want KEY=NUMBER of %s", s, key, strings.Join(keys, ", "))
		}
		var number *float64 // nil for null, which would change nothing
		if err := json.Unmarshal([]byte(value), &number); err != nil || number == nil {
			return nil, fmt.Errorf("--set %s: %q is no number", s, value)
		}
		v := *number
		share := key == "exploration" || key == "sticky_share"
		if !(v >= 0) || math.IsInf(v, 0) || share && v > 1 || key == "sticky_share" && v == 0 || key == "default_peak_prefill_throughput" && v == 0 {
			return nil, fmt.Errorf("--set %s: %s can't be %v", s, key, v)
		}
		all = append(all, fmt.Appendf(nil, "{%q: %s}", key, value))
	}
	return func(s *policy.Settings) {
		for _, text := range all {
			_ = json.Unmarshal(text, s) // tried above
		}
	}, nil
}

// settingKeys are the keys of router.settings.
func settingKeys() (keys []string) {
	text, err := json.Marshal(policy.Defaults())
	if err != nil {
		panic(err) // numbers alone
	}
	var all map[string]float64
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err)
	}
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
