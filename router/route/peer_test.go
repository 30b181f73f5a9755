package route_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/route"
)

// A stream of another router that is begun anew tells of requests whose prefill
// ended long ago. They count, and say nothing of how fast their endpoint is now.
func TestWhatIsRestatedSaysNothingOfSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		defer w.run()()
		ticket := w.begin(t, query("x"))
		ticket.Sent(time.Now())
		ticket.FirstToken(time.Now())
		peer := w.Meet("another")
		step := time.Duration(float64(time.Second) * float64(class.Coefficients.Step(1, 1000)))
		for i := range int(20 * time.Second / step) {
			<-time.After(step)
			ticket.Tokens(1, time.Now())
			if i%100 != 50 {
				continue
			}
			words := []route.Word{{Kind: route.Restating}}
			for n := range uint64(20) {
				words = append(words,
					route.Word{Kind: route.Charged, Number: n, Endpoint: id(0), Started: feature.Unknown, At: time.Now().Add(-time.Minute),
						Entry: ledger.Entry{PromptTokens: 10_000, UncachedTokens: 10_000, ExpectedOutput: 1000}},
					route.Word{Kind: route.Generated, Number: n, Tokens: 100, At: time.Now()})
			}
			peer.Forget(true)
			peer.Hear(append(words, route.Word{Kind: route.Restated}), nil)
			if peer.InFlight() != 20 {
				t.Fatalf("%d requests were restated, want 20", peer.InFlight())
			}
			peer.Forget(true) // their batch would make steps longer by the model
		}
		if f := w.Status().Endpoints[0].SpeedFactor; f < 0.9 || f > 1.1 {
			t.Errorf("speed factor %v of an endpoint that runs as its class does", f)
		}
		ticket.End(ended(feature.ClientAbort, 0))
		peer.Leave()
	})
}
