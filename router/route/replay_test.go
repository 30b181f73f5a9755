package route_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// errPredictor is a predictor's own trouble.
var errPredictor = errors.New("no connection")

// moody answers from a residual that its vector alone decides, after a time
// that its random source decides, and sometimes not at all.
func moody(rng *rand.Rand) func(context.Context, string, []feature.Vector, []feature.Forecast) (route.Answer, error) {
	var mu sync.Mutex
	return func(ctx context.Context, _ string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
		mu.Lock()
		mood, takes := rng.IntN(200), time.Duration(rng.IntN(4000))*time.Microsecond
		mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return route.Answer{}, ctx.Err()
		}
		switch mood {
		case 0:
			return route.Answer{}, errPredictor
		case 1:
			<-ctx.Done()
			return route.Answer{}, ctx.Err()
		}
		for i := range vectors {
			if bits := math.Float32bits(vectors[i][feature.ColumnPriorTTFT]); bits%16 != 0 {
				out[i] = residual(&vectors[i], float64(bits%64)/64-0.5)
			}
		}
		return route.Answer{Bundle: 7, Validated: time.Now()}, nil
	}
}

// client sends requests one after another and plays what becomes of them.
func (w *world) client(t *testing.T, who string, rng *rand.Rand, requests int) (sent map[feature.ID]string) {
	sent = map[feature.ID]string{}
	for i := range requests {
		<-time.After(time.Duration(rng.IntN(3000)) * time.Microsecond)
		q := query(fmt.Sprintf("prompt %d", rng.IntN(20)))
		q.Streaming = rng.IntN(3) > 0
		q.Completions = rng.IntN(3)
		if rng.IntN(4) == 0 {
			q.MaxOutputTokens = rng.IntN(300)
		}
		if rng.IntN(4) == 0 {
			q.SLOTTFT = feature.Seconds(0.2 * rng.Float64())
			q.Priority = rng.IntN(3) - 2
		}
		request := fmt.Sprintf("%s %d", who, i)
		ticket, err := w.Begin(named(request), q)
		if shed := (*route.Shed)(nil); errors.As(err, &shed) {
			text, _, _ := strings.Cut(shed.Decision, ";")
			id, err := feature.ParseID(text)
			if err != nil {
				t.Error(err)
			}
			sent[id] = request
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", request, err)
			continue
		}
		sent[ticket.ID()] = request
		w.follow(ticket, rng, q.Streaming)
	}
	return sent
}

// follow plays one request to its end.
func (w *world) follow(ticket *route.Ticket, rng *rand.Rand, streaming bool) {
	ticket.Sent(time.Now())
	for rng.IntN(6) == 0 {
		if !ticket.Retry("upstream_connect") {
			ticket.End(ended(feature.UpstreamError, 502))
			return
		}
		ticket.Sent(time.Now())
	}
	<-time.After(time.Duration(rng.IntN(20_000)) * time.Microsecond)
	if rng.IntN(8) == 0 {
		ticket.End(ended(feature.ClientAbort, 0))
		return
	}
	output := 1 + rng.IntN(100)
	if streaming {
		ticket.FirstToken(time.Now())
		for range output / 10 {
			<-time.After(time.Duration(rng.IntN(1000)) * time.Microsecond)
			ticket.Tokens(10, time.Now())
		}
		if rng.IntN(8) == 0 {
			ticket.End(ended(feature.UpstreamError, 200))
			return
		}
	}
	ticket.End(served(float64(900+rng.IntN(200)), float64(output)))
	if rng.IntN(8) == 0 {
		ticket.End(ended(feature.Lost, 500)) // twice
	}
}

// TestRowsSayWhatWasAskedAndDecided: under concurrent load, with a predictor
// that fails at times, clients that leave and endpoints that fail, every row
// holds the vectors its forecasts were asked with, bit for bit, and makes the
// same choice again with the same probabilities.
func TestRowsSayWhatWasAskedAndDecided(t *testing.T) {
	by := map[string]int{}
	for seed := range uint64(60) {
		if t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rowsOf(t, seed, by) })
		}); t.Failed() {
			return
		}
	}
	for _, kind := range []string{"predicted, complete", "predicted, incomplete", "fallback, live", "fallback, down", "shed", "held by the canary"} {
		if by[kind] < 20 {
			t.Errorf("only %d decisions were of the kind %q: %v", by[kind], kind, by)
		}
	}
}

// kind is what of a decision the test must have seen.
func kind(d *feature.Decision) string {
	switch {
	case d.Chosen == "":
		return "shed"
	case strings.HasPrefix(d.Reason, "not in the canary"):
		return "held by the canary"
	case d.Policy != policy.Predicted:
		return "fallback, " + d.State
	case d.Complete:
		return "predicted, complete"
	default:
		return "predicted, incomplete"
	}
}

func rowsOf(t *testing.T, seed uint64, by map[string]int) {
	drawn := rand.New(rand.NewPCG(seed, 0))
	endpoints := []int{1, 2, 5, 20, 40}[drawn.IntN(5)]
	w := newWorld(t, endpoints, func(c *route.Config) {
		c.Mode = []string{route.ModeLive, route.ModeShadow, route.ModeCanary}[drawn.IntN(3)]
		c.Canary = 0.5
		c.Settings.Exploration = []float64{0, 0.01, 0.5}[drawn.IntN(3)]
		c.CompleteUpTo, c.CompleteShare = 32, 0.5
		c.Limits.ReturnHold = 100 * time.Millisecond
	})
	w.oracle.set(moody(drawn))
	stop := w.run()
	pass(1300 * time.Millisecond)
	w.fleet.scrape()

	const clients, requests = 8, 12
	sent := make([]map[feature.ID]string, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			sent[i] = w.client(t, fmt.Sprint("client ", i), rand.New(rand.NewPCG(seed, uint64(1+i))), requests)
		})
	}
	all.Go(func() { // numbers change, nobody leaves
		rng := rand.New(rand.NewPCG(seed, 99))
		for range 20 {
			<-time.After(2 * time.Millisecond)
			w.fleet.only(id(rng.IntN(endpoints)), func(e *pool.State) {
				e.Running, e.Waiting, e.KVUsed = float64(rng.IntN(30)), math.NaN(), rng.Float64()
				e.Healthy, e.ScrapedAt = rng.IntN(3) > 0, time.Now()
			})
		}
	})
	all.Wait()
	stop()

	w.idle(t)
	n := 0
	for _, some := range sent {
		n += len(some)
		for decision, request := range some {
			d := w.memory.decisions[decision]
			checkVectors(t, d, w.oracle.about(request))
			checkReplay(t, d)
			by[kind(&d)]++
		}
	}
	if n != clients*requests || len(w.memory.decisions) != n || len(w.memory.outcomes) != n || w.memory.twice != 0 {
		t.Errorf("%d requests, %d decisions, %d outcomes, %d of them twice", n, len(w.memory.decisions), len(w.memory.outcomes), w.memory.twice)
	}
}

// checkVectors compares a row with the vectors of its one forecast call.
func checkVectors(t testing.TB, d feature.Decision, asked []feature.Vector) {
	var stored []feature.Vector
	for _, c := range d.Candidates {
		if c.Endpoint == d.Chosen && !c.Vector.Equal(&d.ChosenVector) {
			t.Errorf("the chosen vector differs from the chosen candidate's")
		}
		if math.IsNaN(float64(c.Vector[0])) {
			if c.Forecast.Known() || c.Endpoint == d.Chosen {
				t.Errorf("%s has a forecast or was chosen, and has no vector", c.Endpoint)
			}
			continue
		}
		asked := slices.ContainsFunc(asked, func(v feature.Vector) bool { return v.Equal(&c.Vector) })
		if c.Forecast.Known() && !asked {
			t.Errorf("%s was forecast from a vector that is not the stored one", c.Endpoint)
		}
		if asked {
			stored = append(stored, c.Vector)
		}
	}
	// One that was chosen unasked may look like one that was asked about.
	if n := len(stored) - len(asked); n != 0 && n != 1 && d.Complete {
		t.Errorf("%d vectors stored, %d asked with", len(stored), len(asked))
	}
	if math.IsNaN(float64(d.ChosenVector[0])) != (d.Chosen == "") {
		t.Errorf("the decision has no chosen vector, or has one and was shed")
	}
}

// checkReplay makes a complete row's decision again.
func checkReplay(t testing.TB, d feature.Decision) {
	if !d.Complete {
		if d.Rest+len(d.Candidates) <= 32 || d.States != nil {
			t.Errorf("an incomplete row of %d candidates and %d bytes of state", d.Rest+len(d.Candidates), len(d.States))
		}
		return
	}
	in, err := policy.Replay(&d)
	if err != nil {
		t.Errorf("replay: %v", err)
		return
	}
	var again policy.Choice
	if err := policy.Decide(in, &again); err != nil {
		t.Errorf("decide again: %v", err)
		return
	}
	if err := policy.Same(&d, in, &again); err != nil || again.Policy != d.Policy || again.Explored != d.Explored {
		t.Errorf("decided %q by %s, and again by %s: %v", d.Chosen, d.Policy, again.Policy, err)
	}
	if again.Shed && d.Propensity != again.ShedProbability {
		t.Errorf("shed with probability %v, and again with %v", d.Propensity, again.ShedProbability)
	}
	sum := again.ShedProbability
	for i, c := range d.Candidates {
		if math.Float64bits(again.Probabilities[i]) != math.Float64bits(c.Probability) || !sameNumber(again.Costs[i], c.Cost) {
			t.Errorf("%s: probability %v and cost %v stored, again %v and %v", c.Endpoint, c.Probability, c.Cost, again.Probabilities[i], again.Costs[i])
		}
		if c.Endpoint == d.Chosen && c.Probability != d.Propensity {
			t.Errorf("propensity is %v, the chosen one's probability %v", d.Propensity, c.Probability)
		}
		sum += c.Probability
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("probabilities sum to %v", sum)
	}
}

func sameNumber(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
