package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/ledger"
)

// longRun is a long life of a ledger beside its twin: clients come, stream, leave,
// repeat themselves and are told of late, on endpoints that restart and flap.
type longRun struct {
	rng     *rand.Rand
	ledger  *ledger.Ledger
	twin    *twin
	now     time.Time
	scraped time.Time

	lives   map[string]uint64  // the present incarnation of each endpoint
	names   []string           // of endpoints
	open    []inFlight         // charged and not settled
	ended   [256]inFlight      // the handles settled last, told of again later
	settled int                // how many there were
	clients map[int][]inFlight // by the id that the client gave, which need not be unique
	did     map[string]int     // operations by kind
}

type inFlight struct {
	handle ledger.Handle
	twin   *twinEntry
}

const (
	longRunEndpoints = 8
	longRunClients   = 500 // ids; more requests than that are open, so some share one
	longRunOpen      = 600 // most requests open at once
)

func newLongRun(seed uint64) *longRun {
	r := &longRun{
		rng: rand.New(rand.NewPCG(seed, 0)), ledger: ledger.New(), twin: newTwin(), now: start, scraped: start,
		lives: map[string]uint64{}, clients: map[int][]inFlight{}, did: map[string]int{},
	}
	for i := range longRunEndpoints {
		name := fmt.Sprintf("10.0.0.%d:8000", i)
		r.names = append(r.names, name)
		r.lives[name] = 1
	}
	return r
}

// step does one operation to the ledger and to its twin. It reports what the two
// disagree on, or "".
func (r *longRun) step() string {
	r.now = r.now.Add(time.Duration(r.rng.IntN(40)) * time.Millisecond)
	x := r.rng.IntN(1000)
	switch {
	case x < 300 && len(r.open) < longRunOpen:
		r.charge(r.rng.IntN(longRunClients))
		return ""
	case x < 310 && len(r.open) > 0 && len(r.open) < longRunOpen: // a client repeats its request, and both go on
		r.did["repeated"]++
		for id := range longRunClients {
			if len(r.clients[id]) > 0 {
				r.charge(id)
				break
			}
		}
		return ""
	case x < 450:
		return r.tell("first token", r.pick(), func(q inFlight) (bool, bool) {
			// A move that came due but was not read yet is no news.
			of := q.twin.of
			r.ledger.State(of.endpoint, of.incarnation, r.now, r.scraped)
			if b := r.twin.lives[of]; b != nil {
				r.twin.moveDue(b, r.now)
			}
			return r.ledger.FirstToken(q.handle, r.now), r.twin.first(q.twin, r.now)
		})
	case x < 690:
		n := 1 + r.rng.IntN(64)
		return r.tell("tokens", r.pick(), func(q inFlight) (bool, bool) {
			return r.ledger.Tokens(q.handle, n, r.now), r.twin.tokens(q.twin, n, r.now)
		})
	case x < 960:
		return r.settle(r.pick())
	case x < 975: // a client goes away, and all its requests with it
		r.did["aborted"]++
		for _, q := range slices.Clone(r.clients[r.rng.IntN(longRunClients)]) {
			if diff := r.settle(q); diff != "" {
				return diff
			}
		}
		return ""
	case x < 980:
		return r.restart(r.names[r.rng.IntN(len(r.names))])
	case x < 985: // it leaves, and comes back as it was
		r.did["flapped"]++
		name := r.names[r.rng.IntN(len(r.names))]
		r.ledger.Forget(name, r.lives[name])
		r.twin.forget(name, r.lives[name])
		return ""
	}
	r.did["scraped"]++
	r.scraped = r.now.Add(-time.Duration(r.rng.Int64N(int64(r.now.Sub(r.scraped)) + 1)))
	return ""
}

// charge puts a request of a client somewhere.
func (r *longRun) charge(client int) {
	r.did["charged"]++
	e := ledger.Entry{PromptTokens: r.rng.IntN(200_000), ExpectedOutput: r.rng.IntN(8000)}
	e.UncachedTokens = max(16, r.rng.IntN(e.PromptTokens+1))
	if r.rng.IntN(5) == 0 {
		e.MoveAt = r.now.Add(time.Duration(r.rng.IntN(20_000)) * time.Millisecond)
	}
	name := r.names[r.rng.IntN(len(r.names))]
	q := inFlight{r.ledger.Charge(name, r.lives[name], e, r.now), r.twin.charge(name, r.lives[name], e, r.now)}
	r.open = append(r.open, q)
	r.clients[client] = append(r.clients[client], q)
	q.twin.client = client
}

// pick is a request in flight or, now and then, one that has ended.
func (r *longRun) pick() inFlight {
	if held := min(r.settled, len(r.ended)); held > 0 && (len(r.open) == 0 || r.rng.IntN(10) == 0) {
		r.did["told late"]++
		return r.ended[r.rng.IntN(held)]
	}
	if len(r.open) == 0 {
		return inFlight{}
	}
	return r.open[r.rng.IntN(len(r.open))]
}

// tell says the same to both and compares their answers.
func (r *longRun) tell(what string, q inFlight, say func(inFlight) (got, want bool)) string {
	if q.twin == nil {
		return ""
	}
	r.did[what]++
	if got, want := say(q); got != want {
		return fmt.Sprintf("%s: taken %v, want %v", what, got, want)
	}
	return ""
}

// settle ends a request.
func (r *longRun) settle(q inFlight) string {
	news := q.twin != nil && !q.twin.settled
	diff := r.tell("settled", q, func(q inFlight) (bool, bool) { return r.ledger.Settle(q.handle), r.twin.settle(q.twin) })
	if news {
		same := func(o inFlight) bool { return o.twin == q.twin }
		i := slices.IndexFunc(r.open, same)
		r.open[i] = r.open[len(r.open)-1]
		r.open = r.open[:len(r.open)-1]
		r.clients[q.twin.client] = slices.DeleteFunc(r.clients[q.twin.client], same)
		r.ended[r.settled%len(r.ended)] = q
		r.settled++
	}
	return diff
}

// restart begins an endpoint's next life. The one before must keep what is open
// there, and the new one must begin with nothing.
func (r *longRun) restart(name string) string {
	r.did["restarted"]++
	r.ledger.Forget(name, r.lives[name])
	r.twin.forget(name, r.lives[name])
	r.lives[name]++
	if s := r.ledger.State(name, r.lives[name], r.now, r.scraped); s != (feature.Ledger{}) {
		return fmt.Sprintf("the new life of %s begins with %+v", name, s)
	}
	return ""
}

// compare looks at every number of every life that either of the two knows.
func (r *longRun) compare() string {
	if r.ledger.Open() != len(r.open) {
		return fmt.Sprintf("%d open, want %d", r.ledger.Open(), len(r.open))
	}
	r.twin.tidy(r.now, r.scraped)
	for _, name := range r.names {
		for _, of := range []twinLife{{name, r.lives[name] - 1}, {name, r.lives[name]}} {
			got, want := r.ledger.State(of.endpoint, of.incarnation, r.now, r.scraped), r.twin.state(of.endpoint, of.incarnation, r.now, r.scraped)
			if diff := drift(want, got); diff != "" {
				return fmt.Sprintf("%s, incarnation %d: %s", of.endpoint, of.incarnation, diff)
			}
		}
	}
	return ""
}

// drift compares counts exactly and the two rates, which decay, nearly.
func drift(want, got feature.Ledger) string {
	for _, rate := range []struct{ want, got *float64 }{
		{&want.PrefillRate, &got.PrefillRate}, {&want.PrefillContextRate, &got.PrefillContextRate},
	} {
		if d := *rate.want - *rate.got; d > 1e-6*(1+*rate.want) || d < -1e-6*(1+*rate.want) {
			return fmt.Sprintf("a rate is %v, want %v", *rate.got, *rate.want)
		}
		*rate.got = *rate.want
	}
	if got != want {
		return "(-want +got):\n" + cmp.Diff(want, got)
	}
	return ""
}

// TestAMillionOperationsLeaveNoDrift: after every thousand of them, and when all
// has ended, no number of the ledger is off by anything.
func TestAMillionOperationsLeaveNoDrift(t *testing.T) {
	const operations, between = 1_000_000, 1000
	r := newLongRun(1)
	for i := range operations {
		if diff := r.step(); diff != "" {
			t.Fatalf("operation %d: %s", i, diff)
		}
		if i%between != 0 {
			continue
		}
		if diff := r.compare(); diff != "" {
			t.Fatalf("after operation %d: %s", i, diff)
		}
	}
	for _, kind := range []string{"charged", "repeated", "told late", "first token", "tokens", "settled", "aborted", "restarted", "flapped", "scraped"} {
		if r.did[kind] < operations/1000 {
			t.Errorf("%d operations of kind %q: too few to say anything", r.did[kind], kind)
		}
	}
	for len(r.open) > 0 {
		if diff := r.settle(r.open[0]); diff != "" {
			t.Fatal(diff)
		}
	}
	if r.ledger.Open() != 0 {
		t.Errorf("%d open after all ended", r.ledger.Open())
	}
	for _, name := range r.names {
		for of := range r.lives[name] + 1 {
			s := r.ledger.State(name, of, r.now, r.now)
			s.PrefillRate, s.PrefillContextRate = 0, 0 // they decay
			if s != (feature.Ledger{}) {
				t.Errorf("%s, incarnation %d, is not empty after all ended: %+v", name, of, s)
			}
		}
	}
}
