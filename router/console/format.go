package console

import (
	"fmt"
	"html/template"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// formats are what the templates write numbers and colours with.
var formats = template.FuncMap{
	"seconds": seconds,
	"number":  number,
	"percent": percent,
	"cost":    cost,
	"share":   share,
	"known":   known,
	"clock":   clock,
	"day":     day,
	"state":   stateClass,
	"outcome": outcomeClass,
	"peer":    peerClass,
}

const dash = "–"

// seconds writes a latency with the unit that reads best.
func seconds(s feature.Seconds) string {
	switch v := float64(s); {
	case feature.IsUnknown(s):
		return dash
	case v < 0:
		return "−" + seconds(-s)
	case v == 0:
		return "0 s"
	case v < 0.0995:
		return fmt.Sprintf("%.1f ms", v*1e3)
	case v < 0.9995:
		return fmt.Sprintf("%.0f ms", v*1e3)
	case v < 99.5:
		return fmt.Sprintf("%.2f s", v)
	default:
		return fmt.Sprintf("%.0f s", v)
	}
}

func number(v any) string {
	switch n := v.(type) {
	case feature.Number:
		return number(float64(n))
	case float64:
		if feature.IsUnknown(n) {
			return dash
		}
		if n == float64(int64(n)) {
			return fmt.Sprintf("%.0f", n)
		}
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprint(v)
}

func percent(n feature.Number) string {
	if feature.IsUnknown(n) {
		return dash
	}
	return fmt.Sprintf("%.0f %%", float64(n)*100)
}

// cost writes what a policy minimised: seconds for one, tokens for another.
func cost(n feature.Number) string {
	switch v := float64(n); {
	case feature.IsUnknown(v):
		return dash
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}

// share is a part of a whole in percent, without one a dash.
func share(part, whole uint32) string {
	if whole == 0 {
		return dash
	}
	return percent(feature.Number(float64(part) / float64(whole)))
}

func known(v any) bool {
	switch n := v.(type) {
	case feature.Number:
		return !feature.IsUnknown(n)
	case feature.Seconds:
		return !feature.IsUnknown(n)
	}
	return true
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// stateClass is the colour of a forecast state.
func stateClass(state string) string {
	switch state {
	case "live":
		return "good"
	case "cold":
		return "calm"
	case "stale", "slow":
		return "warn"
	}
	return "bad"
}

func outcomeClass(status feature.Status) string {
	switch status {
	case feature.OK:
		return "good"
	case feature.ClientAbort, feature.Shed:
		return "calm"
	}
	return "bad"
}

// peerClass is the look of how another router stands.
func peerClass(state string) string {
	switch state {
	case "connected":
		return "good"
	case "silent":
		return "bad"
	}
	return "calm"
}
