package admin

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

var page = template.Must(template.New("status.html").Funcs(template.FuncMap{
	"seconds": seconds,
	"number":  number,
	"percent": percent,
	"clock":   clock,
	"state":   stateClass,
	"outcome": outcomeClass,
	"peer":    peerClass,
}).ParseFS(assets, "status.html"))

// recentRows is how many of the recent requests are listed; the plots show all.
const recentRows = 25

// view is what the page shows.
type view struct {
	route.Status
	Now     time.Time
	Able    int // endpoints that are healthy and not draining
	Plots   []plot
	Changes []route.Transition // newest first
	Latest  []route.Recent     // newest first
}

func look(s route.Status, now time.Time) view {
	v := view{Status: s, Now: now, Changes: slices.Clone(s.Changes), Latest: slices.Clone(s.Recent)}
	for _, e := range s.Endpoints {
		if e.Healthy && !e.Draining {
			v.Able++
		}
	}
	slices.Reverse(v.Changes)
	slices.Reverse(v.Latest)
	v.Latest = v.Latest[:min(len(v.Latest), recentRows)]
	ttft, tpot := make([]pair, 0, len(s.Recent)), make([]pair, 0, len(s.Recent))
	for _, r := range s.Recent {
		ttft = append(ttft, pair{float64(r.ForecastTTFT), float64(r.ActualTTFT)})
		tpot = append(tpot, pair{float64(r.ForecastTPOT), float64(r.ActualTPOT)})
	}
	v.Plots = []plot{scatter("TTFT", ttft), scatter("TPOT", tpot)}
	return v
}

const dash = "–"

// seconds writes a latency with the unit that reads best.
func seconds(s feature.Seconds) string {
	switch v := float64(s); {
	case feature.IsUnknown(s):
		return dash
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

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

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

func outcomeClass(status string) string {
	switch feature.Status(status) {
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
