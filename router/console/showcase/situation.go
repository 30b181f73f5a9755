package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/console"
	"github.com/spillway-llm/spillway/router/route"
)

// situation is a router that is played. Its numbers follow from a seed and the
// time.
type situation struct {
	endpoints int
	ill       int // of them, unhealthy, draining or slow
	llms      []route.LLMStatus
	changes   []route.Transition
	fellBack  time.Duration // how long ago forecasts ceased to decide; 0: they do
	store     console.Store
	drillable bool
	ring      *console.Ring
	began     time.Time

	mu     sync.Mutex
	drill  time.Time
	chance *rand.Rand
	made   int
	recent []route.Recent
}

func situations() map[string]*situation {
	now := time.Now()
	live := route.LLMStatus{LLM: "qwen3-32b", State: "live", Reason: "forecasts hold", Since: now.Add(-50 * time.Minute), Policy: "predicted", Fallback: "combined-load", Bundle: 42, Decisions: 86412, Forecasts: 85110}
	other := route.LLMStatus{LLM: "llama-3.1-8b-instruct", State: "cold", Reason: "no bundle yet", Since: now.Add(-9 * time.Minute), Policy: "predicted", Fallback: "token-load", Decisions: 512}
	wrong := live
	wrong.State, wrong.Reason, wrong.Since = "wrong", "p90 coverage 61 % of the last 200 outcomes, under 75 %", now.Add(-8*time.Minute)
	changes := []route.Transition{
		{At: now.Add(-51 * time.Minute), LLM: live.LLM, From: "cold", To: "live", Reason: "first bundle"},
		{At: now.Add(-50*time.Minute - 30*time.Second), LLM: live.LLM, From: "live", To: "down", Reason: "predictor down"},
		{At: now.Add(-50 * time.Minute), LLM: live.LLM, From: "down", To: "live", Reason: "forecasts hold"},
	}
	all := map[string]*situation{
		"full":     {endpoints: 6, ill: 1, llms: []route.LLMStatus{live, other}, changes: changes, store: shelf{}, drillable: true},
		"fallback": {endpoints: 6, ill: 3, llms: []route.LLMStatus{wrong}, changes: append(changes, route.Transition{At: wrong.Since, LLM: wrong.LLM, From: "live", To: "wrong", Reason: wrong.Reason}), fellBack: 8 * time.Minute, store: shelf{}},
		"hundred":  {endpoints: 100, ill: 7, llms: []route.LLMStatus{live}, changes: changes, store: shelf{}},
		"empty":    {},
		"away":     {endpoints: 6, llms: []route.LLMStatus{live}, store: shelf{errors.New("connect to 10.0.3.7:5432: connection refused")}},
	}
	for _, s := range all {
		s.ring, s.began, s.chance = console.NewRing(forgetful{}), now, rand.New(rand.NewPCG(7, uint64(s.endpoints)))
		if s.endpoints > 0 {
			for i := range 40 {
				s.decide(now.Add(time.Duration(i-40) * 700 * time.Millisecond))
			}
		}
	}
	return all
}

func (s *situation) config() console.Config {
	c := console.Config{Status: s.status, History: s.history, Recent: s.ring, Store: s.store}
	if s.drillable {
		c.Drill = s.beginDrill
	}
	return c
}

func (s *situation) beginDrill(length time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drill = time.Now().Add(length)
	return nil
}

// move decides twice a second.
func (s *situation) move(ctx context.Context) {
	if s.endpoints == 0 {
		return
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.decide(now)
		}
	}
}

// decide records one decision, and what came of most.
func (s *situation) decide(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	d, err := decision(s.chance, s.made, now, min(s.endpoints, 12), s.fellBack == 0)
	if err != nil {
		panic(err) // it is made here, of numbers that fit
	}
	d.LLM = s.llms[0].LLM
	s.ring.RecordDecision(d)
	if s.made%5 == 0 {
		return // has not ended
	}
	o := feature.Outcome{Decision: d.ID, Attempt: 1, Status: feature.OK, HTTPStatus: 200, Endpoint: d.Chosen, OutputTokens: 180, CachedTokens: 512,
		TTFT: feature.Seconds(0.25 * math.Exp(0.5*s.chance.NormFloat64())), TPOT: feature.Seconds(0.021 * math.Exp(0.2*s.chance.NormFloat64()))}
	o.E2E = o.TTFT + 180*o.TPOT
	if s.made%17 == 0 {
		o.Status, o.TTFT, o.TPOT = feature.ClientAbort, feature.Seconds(feature.Unknown), feature.Seconds(feature.Unknown)
	}
	s.ring.RecordOutcome(o)
	s.recent = append(s.recent, route.Recent{
		ID: d.ID.String(), At: now, LLM: d.LLM, Endpoint: d.Chosen, Status: string(o.Status), ActualTTFT: o.TTFT, ActualTPOT: o.TPOT,
		ForecastTTFT: o.TTFT * feature.Seconds(math.Exp(0.15*s.chance.NormFloat64())), ForecastTPOT: o.TPOT * feature.Seconds(math.Exp(0.05*s.chance.NormFloat64())),
	})
	s.recent = s.recent[max(0, len(s.recent)-200):]
}

func (s *situation) status() route.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	out := route.Status{Router: "router-0", LLMs: s.llms, Changes: s.changes, Recent: append([]route.Recent(nil), s.recent...)}
	if now.Before(s.drill) {
		until := s.drill
		out.Drill = &until
	}
	second := now.Sub(s.began).Seconds()
	for i := range s.endpoints {
		x := float64(i)
		wave := 0.5 + 0.4*math.Sin(second/7+x)
		e := route.EndpointStatus{
			ID: fmt.Sprintf("gpu-%03d.fleet-a", i), URL: fmt.Sprintf("http://10.1.%d.%d:8000", i/250, i%250), Class: "h100-tp2-vllm", Healthy: true, Standing: "good",
			Age: feature.Seconds(math.Mod(second+x/7, 1)), Waiting: feature.Number(math.Floor(4 * wave * wave)), Running: feature.Number(math.Floor(30 * wave)), KVUsed: feature.Number(0.97 * wave),
			InFlight: feature.Number(math.Floor(31 * wave)), PrefillTokens: feature.Number(math.Floor(9000 * wave)), SpeedFactor: feature.Number(1 + 0.02*math.Mod(x, 5)), Chosen: uint64(14000 + 13*i + int(second)), Share: feature.Number(1 / float64(s.endpoints)),
		}
		switch left := s.endpoints - i; {
		case left > s.ill:
		case left%3 == 1:
			e.Standing, e.Age, e.SpeedFactor, e.Share = "dated", 34, 2.4, 0.001
		case left%3 == 2:
			none := feature.Number(feature.Unknown)
			e.Healthy, e.Standing, e.Age, e.Waiting, e.Running, e.KVUsed, e.Share = false, "doubtful", feature.Seconds(feature.Unknown), none, none, none, 0
		default:
			e.Draining, e.Standing, e.Share = true, "barred", 0
		}
		out.Endpoints = append(out.Endpoints, e)
	}
	return out
}

// history is an hour of ten decisions a second, with a hill in its middle.
func (s *situation) history(llm string) []route.Period {
	if s.endpoints == 0 || llm != s.llms[0].LLM {
		return nil
	}
	now := time.Now()
	var out []route.Period
	for i := range route.HistoryPeriods {
		began := now.Truncate(route.PeriodLength).Add(time.Duration(i-route.HistoryPeriods+1) * route.PeriodLength)
		chance := rand.New(rand.NewPCG(uint64(began.Unix()), 1))
		hill := math.Exp(-math.Pow(float64(began.Unix()%3600)-1800, 2) / 2e5)
		p := route.Period{Began: began, Decisions: uint32(60 + 60*hill + 10*chance.Float64()), Shed: uint32(6 * hill * chance.Float64()), Spilled: uint32(7 * hill * chance.Float64())}
		p.Ended, p.Forecasts = p.Decisions, p.Decisions
		fell := s.fellBack > 0 && now.Sub(began) < s.fellBack
		if fell {
			p.Forecasts = 0
		}
		for range p.Decisions {
			ttft, tpot := 0.2*(1+2*hill), 0.02*(1+hill)
			noise, other, drift := math.Exp(0.25*chance.NormFloat64()), math.Exp(0.25*chance.NormFloat64()), 1.0
			if s.fellBack > 0 && now.Sub(began) < s.fellBack+3*time.Minute {
				drift = 1.6
			}
			p.TTFT.Add(&feature.Quantiles{P50: feature.Seconds(ttft), P90: feature.Seconds(ttft * 1.38)}, feature.Seconds(ttft*noise*drift))
			p.TPOT.Add(&feature.Quantiles{P50: feature.Seconds(tpot), P90: feature.Seconds(tpot * 1.38)}, feature.Seconds(tpot*other))
		}
		out = append(out, p)
	}
	return out
}

type forgetful struct{}

func (forgetful) RecordDecision(feature.Decision) {}
func (forgetful) RecordOutcome(feature.Outcome)   {}

// shelf is a store of four bundles and no rows; with an error it is away.
type shelf struct{ away error }

func (s shelf) Decision(context.Context, feature.ID) (feature.Decision, []feature.Outcome, error) {
	if s.away != nil {
		return feature.Decision{}, nil, s.away
	}
	return feature.Decision{}, nil, console.ErrNotFound
}

func (s shelf) Bundles(context.Context, string, int) ([]console.Bundle, error) {
	var out []console.Bundle
	for v := int64(43); v > 39; v-- {
		verdict, err := json.Marshal(map[string]any{
			"accepted": v != 43, "reasons": map[bool][]string{true: {"TTFT p90 covers 82.1 % in load band q4, whose 99 % interval lies wholly outside 87-93 %", "loses to the served bundle on TTFT pinball loss by 3.1 % (1.2 to 5.0)"}, false: {}}[v == 43],
			"learn_rows": 180000 + 100*v, "held_out_rows": 45000, "ttft_median_ape": 0.08 + 0.001*float64(v-40), "versus_prior": map[string]any{"mean": -0.41, "low": -0.44, "high": -0.38},
		})
		if err != nil {
			panic(err) // plain numbers
		}
		out = append(out, console.Bundle{Version: v, CreatedAt: time.Now().Add(-time.Duration(43-v) * 15 * time.Minute), Accepted: v != 43, Verdict: verdict, Metadata: json.RawMessage(fmt.Sprintf(`{"schema":3,"trees":%d}`, 200+v))})
	}
	return out, s.away
}

func (s shelf) Turns(context.Context, string, int) ([]console.Turn, error) {
	now := time.Now()
	return []console.Turn{{Version: 42, ValidatedAt: now.Add(-5 * time.Minute), Reason: "revalidated"}, {Version: 42, ValidatedAt: now.Add(-20 * time.Minute), Reason: "published"}, {Version: 41, ValidatedAt: now.Add(-35 * time.Minute), Reason: "published"}}, s.away
}
