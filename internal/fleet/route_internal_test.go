package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/prefix"
	"github.com/spillway-llm/spillway/router/route"
)

// beside drives the router of a world and the real one through the same story.
// Package route reads the wall clock, so the story runs in a bubble.
type beside struct {
	t        *testing.T
	rng      *rand.Rand
	sim      *router
	real     *route.Router
	snapshot atomic.Pointer[pool.Snapshot]
	last     feature.Decision
	unasked  int // candidates without a forecast so far
	wrong    int // decisions while outcomes spoke against the forecasts
	lost     int // live decisions without an answer that lost the order of its priors
	doubted  int // answers whose engine had far less cached than was believed
	live     []*besideRequest
}

type besideRequest struct {
	call     call
	ticket   *route.Ticket
	began    time.Time
	first    time.Time
	last     time.Time
	received int
}

func (b *beside) Snapshot() *pool.Snapshot           { return b.snapshot.Load() }
func (b *beside) ReportFailure(string)               {}
func (b *beside) ReportSuccess(string)               {}
func (b *beside) RecordDecision(d feature.Decision)  { b.last = d }
func (b *beside) RecordOutcome(feature.Outcome)      {}
func (b *beside) at(now time.Time) (d time.Duration) { return now.Sub(epoch) }

// biased forecasts residuals that depend on the vector.
type biased struct{}

func (biased) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	for i := range vectors {
		p := vectors[i].Prior()
		r := 0.2 * math.Sin(float64(vectors[i][feature.ColumnUncachedTokens]))
		if int(vectors[i][feature.ColumnPromptTokens])%9 == 0 {
			r = -2 * math.Log(float64(p.TTFT)) // the order of the priors is lost
		}
		e := feature.Seconds(math.Exp(r))
		out[i].Residual.TTFT = feature.LogQuantiles{P50: r, P90: r + 0.3}
		out[i].Residual.TPOT = out[i].Residual.TTFT
		out[i].TTFT = feature.Quantiles{P50: p.TTFT * e, P90: p.TTFT * e * 2}
		out[i].TPOT = feature.Quantiles{P50: p.TPOT * e, P90: p.TPOT * e * 2}
		out[i].Support = 1
	}
}

// asked is biased as route wants it.
type asked struct{}

func (asked) Forecast(_ context.Context, _ string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	biased{}.Forecast(vectors, out)
	return route.Answer{Bundle: 1, Validated: time.Now()}, nil
}

// beyond is how slow an endpoint is whose prior is now and then longer than a
// forecast may be.
const beyond = 4000

func newBeside(t *testing.T, seed uint64, name string, n int) *beside {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	b := &beside{t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	initial := &pool.Snapshot{Epoch: 1}
	config, err := RouterConfig{Policy: name, Forecaster: Served(biased{})}.complete()
	if err != nil {
		t.Fatal(err)
	}
	config.Settings.Exploration = 0 // its draws differ
	c := route.Defaults()
	c.Name, c.Policy, c.Settings, c.DefaultProfile = "real", name, config.Settings, p
	c.Profiles = map[string]physics.Profile{}
	b.sim = newRouter(config, rand.NewPCG(1, 1), DefaultBlockTokens, time.Now())
	b.sim.always = true // also what time alone changes
	for i := range n {
		// No two alike, so that no tie has to be drawn.
		q := p.Slowed(1 + 0.07*float64(i))
		if i == n-1 {
			q = p.Slowed(beyond)
		}
		q.KVCapacityTokens = 20_000
		c.Profiles[q.Name] = q
		id := fmt.Sprintf("e%03d", i)
		b.sim.meet(id, q.Name, q)
		initial.Endpoints = append(initial.Endpoints, pool.State{
			ID: id, Class: q.Name, LLMs: []string{"llm"}, Incarnation: 1, Healthy: true,
			Waiting: feature.Unknown, Running: feature.Unknown, KVUsed: feature.Unknown,
			KVCapacityTokens: feature.Unknown, BlockTokens: feature.Unknown, MaxNumSeqs: feature.Unknown,
		})
	}
	b.snapshot.Store(initial)
	for i := range n {
		b.scrape(i)
	}
	b.real, err = route.New(c, b, asked{}, b, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// scrape gives both routers new numbers of an endpoint.
func (b *beside) scrape(i int) {
	m := Metrics{Waiting: b.rng.IntN(5), Running: b.rng.IntN(40), KVUsed: b.rng.Float64()}
	now := time.Now()
	was := b.snapshot.Load()
	next := &pool.Snapshot{Epoch: was.Epoch + 1, Endpoints: slices.Clone(was.Endpoints)}
	e := &next.Endpoints[i]
	e.Waiting, e.Running, e.KVUsed, e.ScrapedAt, e.KVCapacityTokens = float64(m.Waiting), float64(m.Running), m.KVUsed, now, 30_000
	b.snapshot.Store(next)
	b.sim.scraped(i, m, 30_000, now)
}

// pass lets time pass; both tick at full seconds since the bubble began.
func (b *beside) pass(d time.Duration) {
	for d > 0 {
		second := time.Now().Truncate(time.Second).Add(time.Second)
		step := min(d, time.Until(second))
		<-time.After(step)
		synctest.Wait()
		if time.Now().Equal(second) {
			b.sim.tick(second)
		}
		d -= step
	}
}

// begin decides one request in both and compares all that was decided from.
func (b *beside) begin(chains [][]uint64) {
	chain := chains[b.rng.IntN(len(chains))]
	chain = chain[:b.rng.IntN(len(chain)+1)]
	tokens := len(chain)*DefaultBlockTokens + 1 + b.rng.IntN(DefaultBlockTokens-1)
	q := &besideRequest{began: time.Now()}
	asks, ttft, tpot := Objective{}, feature.Seconds(feature.Unknown), feature.Seconds(feature.Unknown)
	if b.rng.IntN(3) == 0 {
		asks.TTFT = time.Duration(1+b.rng.IntN(300)) * time.Millisecond
		ttft = feature.SecondsOf(asks.TTFT)
	}
	if b.rng.IntN(3) == 0 {
		asks.TPOT = time.Duration(10+b.rng.IntN(30)) * time.Millisecond
		tpot = feature.SecondsOf(asks.TPOT)
	}
	var err error
	q.ticket, err = b.real.Begin(b.t.Context(), &route.Query{
		LLM: "llm", PromptBytes: len(chain) * prefix.DefaultBlockBytes, PromptTokens: tokens - len(chain)*DefaultBlockTokens, MaxOutputTokens: -1, Streaming: true, SLOTTFT: ttft, SLOTPOT: tpot,
		Prompt: func(yield func(route.Piece) bool) {
			for _, hash := range chain {
				var text [prefix.DefaultBlockBytes]byte
				binary.LittleEndian.PutUint64(text[:], hash)
				if !yield(route.Piece{Bytes: text[:]}) {
					return
				}
			}
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	q.ticket.Sent(q.began)
	// Ties are drawn: the world sends it where route did, and compare sees
	// whether it might have chosen that.
	b.sim.forced = slices.IndexFunc(b.sim.targets, func(t *target) bool { return t.id == q.ticket.Endpoint() })
	endpoint, err := b.sim.decide(&query{promptTokens: tokens, chain: chain, asks: asks}, &q.call, -1, q.began)
	if err != nil {
		b.t.Fatal(err)
	}
	b.live = append(b.live, q)
	b.compare(endpoint)
}

func (b *beside) compare(endpoint int) {
	b.t.Helper()
	in, out, d := &b.sim.input, &b.sim.choice, &b.last
	state, _, _ := b.sim.guard.State()
	if string(state) != d.State {
		b.t.Fatalf("state %s, route's %s (%s)", state, d.State, d.Reason)
	}
	if state == correction.Wrong {
		b.wrong++
	}
	if state == correction.Live && b.sim.guard.Lost() && d.Policy != policy.Predicted {
		b.lost++
	}
	if p := out.Probabilities[endpoint]; p == 0 || p == 1 && endpoint != out.Index {
		b.t.Fatalf("route chose %s, which the world would with probability %v", d.Chosen, p)
	}
	if d.Policy != out.Policy || d.Chosen != in.Candidates[endpoint].Endpoint || d.ExpectedOutputTokens != in.Request.ExpectedOutputTokens {
		b.t.Fatalf("the world chose %s by %s with %v tokens expected, route %s by %s with %v", in.Candidates[endpoint].Endpoint, out.Policy,
			in.Request.ExpectedOutputTokens, d.Chosen, d.Policy, d.ExpectedOutputTokens)
	}
	if v := in.Candidates[endpoint].Vector(&in.Request); !v.Equal(&d.ChosenVector) {
		b.t.Fatalf("the vector of the chosen one is %v, route's %v", v, d.ChosenVector)
	}
	for i, c := range d.Candidates {
		if j := slices.Index(b.sim.asked, i); out.Policy == policy.Predicted && j >= 0 && !b.sim.vectors[j].Equal(&c.Vector) {
			b.t.Fatalf("candidate %d: the vector is %v, route's %v", i, b.sim.vectors[j], c.Vector)
		} else if j < 0 {
			b.unasked++
		}
		same := func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y }
		if f := out.Forecasts[i]; !same(out.Costs[i], c.Cost) || !same(out.Probabilities[i], c.Probability) ||
			!same(float64(f.TTFT.P50), float64(c.Corrected.TTFT.P50)) || !same(float64(f.TPOT.P90), float64(c.Corrected.TPOT.P90)) {
			b.t.Fatalf("candidate %d: cost %v, probability %v, forecast %+v; route's %v, %v, %+v", i,
				out.Costs[i], out.Probabilities[i], f, c.Cost, c.Probability, c.Corrected)
		}
	}
}

// event gives both an event of a random request.
func (b *beside) event() {
	if len(b.live) == 0 {
		return
	}
	q := b.live[b.rng.IntN(len(b.live))]
	now := time.Now()
	if q.received == 0 {
		q.first, q.last, q.received = now, now, 1
		b.sim.firstToken(q.call.stream(), b.at(now))
		q.ticket.FirstToken(now)
		return
	}
	n := 1 + b.rng.IntN(3)
	q.last, q.received = now, q.received+n
	b.sim.tokens(q.call.stream(), int32(n), b.at(now))
	q.ticket.Progress(n, 1, now)
}

// end ends a random request in both, now and then an unlucky one.
func (b *beside) end() {
	if len(b.live) == 0 {
		return
	}
	i := b.rng.IntN(len(b.live))
	q := b.live[i]
	b.live = append(b.live[:i], b.live[i+1:]...)
	end := route.End{Status: feature.ClientAbort, TTFT: feature.Seconds(feature.Unknown), TPOT: feature.Seconds(feature.Unknown),
		E2E: feature.Seconds(feature.Unknown), PromptTokens: feature.Unknown, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown}
	if q.received > 0 && b.rng.IntN(5) > 0 {
		end.Status, end.HTTPStatus, end.OutputTokens = feature.OK, 200, float64(q.received)
		end.TTFT = feature.SecondsOf(q.first.Sub(q.began))
		if q.received > 1 {
			end.TPOT = feature.SecondsOf(q.last.Sub(q.first) / time.Duration(q.received-1))
		}
	}
	cached := int(q.call.ticket.cached) // as believed, or any part of it
	if b.rng.IntN(2) == 0 {
		cached = b.rng.IntN(cached + 1)
	}
	if was := q.call.ticket.believed; was.blocks > 0 && float64(cached) < was.tokens/2 && was.tokens-float64(cached) >= leastLost && end.Status == feature.OK {
		b.doubted++
	}
	end.CachedTokens = float64(cached)
	b.sim.end(&q.call.ticket, answer{end.Status == feature.OK, end.TTFT, end.TPOT, q.received, cached}, time.Now())
	q.ticket.End(end)
}

// The router of a world sees the numbers that package route sees, to the bit,
// and decides alike.
func TestWorldRoutesAsRouteDoes(t *testing.T) {
	wrong := 0
	for _, name := range []string{policy.Predicted, policy.RoundRobin} {
		for seed := range uint64(8) {
			synctest.Test(t, func(t *testing.T) {
				b := newBeside(t, seed, name, 5)
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error)
				go func() { done <- b.real.Run(ctx) }()
				defer func() { cancel(); <-done }()
				b.pass(2500 * time.Millisecond) // until forecasts are live
				b.sim.probe(time.Now())
				b.sim.demand = correction.NewDemand(time.Now().Add(-1500 * time.Millisecond)) // route met the LLM in its first tick

				var chains [][]uint64
				for i := range uint64(6) {
					var chain []uint64
					for j := range uint64(40) {
						text := i % 3 // topics share beginnings
						if j > 10*i {
							text = 100 + i
						}
						chain = append(chain, 1+j*1000+text)
					}
					chains = append(chains, chain)
				}
				for range 4000 {
					switch x := b.rng.IntN(20); {
					case x < 3:
						b.begin(chains)
					case x < 13:
						b.event()
					case x < 16:
						b.end()
					case x == 16:
						b.scrape(b.rng.IntN(5))
					default: // for 5 ms route takes what it saw for new
						b.pass(time.Duration(5+b.rng.IntN(200)) * time.Millisecond)
					}
				}
				if b.doubted == 0 {
					t.Error("no engine had lost what was believed of it")
				}
				wrong += b.wrong
				if name == policy.Predicted && b.lost == 0 {
					t.Error("no answer lost the order of its priors")
				}
				if name == policy.Predicted && b.unasked == 0 {
					t.Error("no prior was beyond what a forecast may say")
				}
			})
		}
	}
	if wrong == 0 {
		t.Error("no outcomes spoke against the forecasts")
	}
}
