package kube

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spillway-llm/spillway/router/pool"
)

// Marks are labels or annotations of a Pod, or of an EndpointSlice, which has
// the labels of its Service; an annotation goes before a label. They say of its
// endpoints what the configuration says of all.
const (
	prefix = "spillway.dev/"

	MarkClass       = prefix + "class"
	MarkProfile     = prefix + "profile"
	MarkLLMs        = prefix + "llms" // separated by commas
	MarkScheme      = prefix + "scheme"
	MarkMetricsPath = prefix + "metrics-path"
	MarkMetricsPort = prefix + "metrics-port"
	MarkDrain       = prefix + "drain" // true: send nothing new, keep what it has
	MarkRole        = prefix + "role"  // prefill: it serves no requests of its own and is left out
)

// roleElsewhere is read where MarkRole is not there: it is what llm-d's charts
// set.
const roleElsewhere = "llm-d.ai/role"

// marked is what the marks of an object come to.
type marked struct {
	pool.Traits
	drain bool
	out   bool // serves no requests of its own
}

// marks reads those of an object over what all have in common.
func (m *meta) marks(common pool.Traits) (marked, error) {
	found := marked{Traits: common}
	say := func(key string) (string, bool) {
		if v, ok := m.Annotations[key]; ok {
			return strings.TrimSpace(v), true
		}
		v, ok := m.Labels[key]
		return v, ok
	}
	for key, field := range map[string]*string{
		MarkClass: &found.Class, MarkProfile: &found.Profile, MarkScheme: &found.Scheme, MarkMetricsPath: &found.MetricsPath,
	} {
		if v, ok := say(key); ok {
			*field = v
		}
	}
	if v, ok := say(MarkLLMs); ok {
		found.LLMs = nil
		for llm := range strings.SplitSeq(v, ",") {
			if llm = strings.TrimSpace(llm); llm != "" {
				found.LLMs = append(found.LLMs, llm)
			}
		}
	}
	if v, ok := say(MarkMetricsPort); ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return found, fmt.Errorf("%s %q is no port", MarkMetricsPort, v)
		}
		found.MetricsPort = n
	}
	if v, ok := say(MarkDrain); ok {
		drain, err := strconv.ParseBool(v)
		if err != nil {
			return found, fmt.Errorf("%s %q is neither true nor false", MarkDrain, v)
		}
		found.drain = drain
	}
	role, ok := say(MarkRole)
	if !ok {
		role = m.Labels[roleElsewhere]
	}
	found.out = role == "prefill"
	return found, found.Traits.Check()
}
