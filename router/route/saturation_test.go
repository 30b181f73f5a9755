package route_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

const saturation = "spillway_router_saturation"

// taken is what the step model says that a decision's vector takes of an endpoint.
func taken(v *feature.Vector) float64 {
	at := func(name string) float64 { return float64(v[feature.Index(name)]) }
	return float64(physics.Occupied(class.Coefficients, feature.Request{
		PromptTokens: at("prompt_tokens"), CachedTokens: at("cached_tokens"), ExpectedOutputTokens: at("expected_output_tokens"), Completions: at("completions"),
	}, feature.Profile{MaxNumSeqs: at("max_num_seqs"), KVCapacityTokens: at("kv_capacity_tokens"), SpeedFactor: at("speed_factor")}))
}

// TestSaturationIsTheShareThatArrivalsTake: two requests each second for five
// minutes, of other prompts, on two endpoints.
func TestSaturationIsTheShareThatArrivalsTake(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.fleet.only(id(2), func(e *pool.State) { e.Draining = true }) // counts for nothing
		sum, last := 0.0, 0.0
		for i := range 600 {
			ticket := w.begin(t, query(fmt.Sprintf("prompt %d", i)))
			d := w.memory.decision(ticket)
			ticket.End(served(1000, 100))
			if i%2 == 1 {
				pass(time.Second)
				w.fleet.scrape()
			}
			if last = taken(&d.ChosenVector); i >= 300 {
				sum += last
			}
		}
		got, want := w.count(t, saturation, llm), sum/150/2
		if !(want > 0) || math.Abs(got/want-1) > 0.05 {
			t.Errorf("saturation %.4f, want %.4f: by the last of them %.4f", got, want, 2*last/2)
		}
		pass(time.Minute)
		w.fleet.scrape()
		if faded := w.count(t, saturation, llm); math.Abs(faded/got-math.Exp(-1)) > 0.02 {
			t.Errorf("saturation %.4f a minute after the last request, %.4f before", faded, got)
		}
		w.fleet.change(func(e *pool.State) { e.Draining = true })
		if n := w.series(t, saturation); n != 0 {
			t.Errorf("%d LLMs have a saturation and no endpoint", n)
		}
	})
}

// TestWhatIsShedIsDemandToo: it would have taken its share.
func TestWhatIsShedIsDemandToo(t *testing.T) {
	inLive(t, 2, func(c *route.Config) { c.Policy = policy.Predicted }, func(t *testing.T, w *world) {
		if before := w.count(t, saturation, llm); before != 0 {
			t.Fatalf("saturation %v before the first request", before)
		}
		var shed *route.Shed
		if _, err := w.Begin(t.Context(), expendable(1e-3)); !errors.As(err, &shed) {
			t.Fatal(err)
		}
		if after := w.count(t, saturation, llm); !(after > 0) {
			t.Errorf("saturation %v after a request that was shed", after)
		}
	})
}
