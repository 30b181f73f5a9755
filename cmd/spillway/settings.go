package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spillway-llm/spillway/router/policy"
)

// setUse is what --set is for.
const setUse = "another value of a key of router.settings, such as predicted_ttft_penalty=2; may be given again"

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
