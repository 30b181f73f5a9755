package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

func TestWhoMayServe(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(*pool.State) // of all
		llm  string
		want error
	}{
		"nobody is there":             {func(e *pool.State) { e.ID = "" }, llm, route.ErrNoEndpoint},
		"all drain":                   {func(e *pool.State) { e.Draining = true }, llm, route.ErrNoEndpoint},
		"nobody serves it":            {func(*pool.State) {}, "gpt-2", route.ErrUnknownLLM},
		"its name is too long":        {func(e *pool.State) { e.LLMs = nil }, strings.Repeat("x", 257), route.ErrUnknownLLM},
		"its name is no text":         {func(e *pool.State) { e.LLMs = nil }, "a\xff", route.ErrUnknownLLM},
		"its name has a zero":         {func(e *pool.State) { e.LLMs = nil }, "a\x00", route.ErrUnknownLLM},
		"all are unhealthy":           {func(e *pool.State) { e.Healthy = false }, llm, nil},
		"all numbers are old":         {func(e *pool.State) { e.ScrapedAt = e.ScrapedAt.Add(-time.Hour) }, llm, nil},
		"no numbers were ever seen":   {func(e *pool.State) { e.ScrapedAt = time.Time{}; e.Running = math.NaN() }, llm, nil},
		"nobody says what they serve": {func(e *pool.State) { e.LLMs = nil }, "gpt-2", nil},
		"no LLM is named":             {func(*pool.State) {}, "", nil},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 3, nil)
			w.fleet.change(c.edit)
			q := query("x")
			q.LLM = c.llm
			ticket, err := w.Begin(context.Background(), q)
			if !errors.Is(err, c.want) {
				t.Fatalf("Begin: %v, want %v", err, c.want)
			}
			if err == nil {
				checkReplay(t, w.memory.decision(ticket))
				ticket.End(served(1000, 10))
			}
			w.idle(t)
		})
	}
}

func TestLLMThatWasListedIsAwayAndNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		defer w.run()()
		pass(1100 * time.Millisecond)
		w.fleet.change(func(e *pool.State) { e.LLMs = []string{"other"} })
		if _, err := w.Begin(t.Context(), query("x")); !errors.Is(err, route.ErrNoEndpoint) {
			t.Errorf("Begin: %v, want %v", err, route.ErrNoEndpoint)
		}
		q := query("x")
		q.LLM = "never"
		if _, err := w.Begin(t.Context(), q); !errors.Is(err, route.ErrUnknownLLM) {
			t.Errorf("Begin: %v, want %v", err, route.ErrUnknownLLM)
		}
	})
}

func TestLastResortIsVisible(t *testing.T) {
	for standing, edit := range map[string]func(*pool.State){
		"dated":    func(e *pool.State) { e.ScrapedAt = time.Time{} },
		"doubtful": func(e *pool.State) { e.Healthy = false },
	} {
		w := newWorld(t, 2, func(c *route.Config) { c.Policy = policy.TokenLoad })
		w.begin(t, query("x"))
		w.fleet.only(id(0), edit)
		w.begin(t, query("x"))
		if n := w.count(t, "spillway_router_last_resort_total", standing); n != 0 {
			t.Errorf("%v decisions counted while a good endpoint was left", n)
		}
		if good, other := w.count(t, "spillway_router_endpoints_standing", "good"), w.count(t, "spillway_router_endpoints_standing", standing); good != 1 || other != 1 {
			t.Errorf("%v endpoints are good and %v %s, want one of each", good, other, standing)
		}
		w.fleet.leave(id(1))
		d := w.memory.decision(w.begin(t, query("x")))
		if want := "last resort: " + standing + "; "; !strings.HasPrefix(d.Reason, want) {
			t.Errorf("reason %q, want %q first", d.Reason, want)
		}
		if n := w.count(t, "spillway_router_last_resort_total", standing); n != 1 {
			t.Errorf("%v decisions counted, want 1", n)
		}
		if s := w.Status().Endpoints[0].Standing; s != standing {
			t.Errorf("the status says %s", s)
		}
	}
}

func TestEveryLLMTakesItsOwnTurns(t *testing.T) {
	w := newWorld(t, 2, func(c *route.Config) { c.Policy = policy.RoundRobin })
	w.fleet.change(func(e *pool.State) { e.LLMs = []string{"a", "b"} })
	seen := map[string]int{}
	for i := range 20 { // in turns themselves
		q := query("x")
		q.LLM = string("ab"[i%2])
		seen[q.LLM+" "+w.begin(t, q).Endpoint()]++
	}
	for what, n := range seen {
		if n != 5 || len(seen) != 4 {
			t.Errorf("%s: %d times of 10, want 5 (%v)", what, n, seen)
		}
	}
}

func TestBetterStandingComesFirstHoweverBusy(t *testing.T) {
	for _, by := range []string{policy.Predicted, policy.TokenLoad, policy.RoundRobin} {
		w := newWorld(t, 4, func(c *route.Config) { c.Policy = by })
		w.fill(t, id(3), 100_000)
		w.fleet.only(id(0), func(e *pool.State) { e.ScrapedAt = e.ScrapedAt.Add(-11 * time.Second) })
		w.fleet.only(id(1), func(e *pool.State) { e.Healthy = false })
		w.fleet.only(id(2), func(e *pool.State) { e.Draining = true })
		for _, want := range []string{id(3), id(0), id(1)} {
			for range 3 {
				ticket := w.begin(t, tokens(100))
				if ticket.Endpoint() != want {
					t.Errorf("%s chose %s, want %s", by, ticket.Endpoint(), want)
				}
				ticket.End(ended(feature.ClientAbort, 0))
			}
			w.fleet.leave(want)
		}
	}
}

func TestStatusIsJSONWhateverIsUnknown(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.fleet.change(func(e *pool.State) {
		e.Running, e.Waiting, e.KVUsed = math.NaN(), math.Inf(1), math.Inf(-1)
		e.ScrapedAt, e.KVCapacityTokens, e.MaxNumSeqs = time.Time{}, math.NaN(), math.NaN()
	})
	ticket := w.begin(t, query("x"))
	ticket.End(ended(feature.UpstreamError, 502))
	b, err := json.Marshal(w.Status())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"waiting":null`, `"running":null`, `"kv_used":null`, `"age":null`, `"forecast_ttft":null`, `"actual_tpot":null`, `"in_flight":0`, `"speed_factor":1`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}

func TestStatusRemembersABoundedPast(t *testing.T) {
	w := newWorld(t, 1, nil)
	for range 1000 {
		w.begin(t, query("x")).End(served(1000, 10))
	}
	last := w.begin(t, query("x"))
	last.End(served(1000, 10))
	recent := w.Status().Recent
	if len(recent) != 200 || recent[199].ID != last.ID().String() {
		t.Errorf("%d requests remembered, want the last 200", len(recent))
	}
}

func TestModelsAreTheUnion(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.fleet.only(id(1), func(e *pool.State) { e.LLMs = []string{"adapter", llm} })
	if got := fmt.Sprint(w.Models()); got != "[adapter "+llm+"]" {
		t.Errorf("models %s", got)
	}
}

func TestPanicOfTheRecorderLeavesNothingInFlight(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.memory.decisions = nil // writing to it panics
	func() {
		defer func() { _ = recover() }()
		_, _ = w.Begin(context.Background(), query("x"))
		t.Error("the recorder was meant to panic")
	}()
	w.idle(t)
	if len(w.memory.outcomes) != 0 {
		t.Error("an outcome without its decision was recorded")
	}
}

func TestConfigNamesTheWrongKey(t *testing.T) {
	for key, spoil := range map[string]func(*route.Config){
		"mode":                    func(c *route.Config) { c.Mode = "dry" },
		"policy":                  func(c *route.Config) { c.Policy = "best" },
		"fallback":                func(c *route.Config) { c.Fallback = policy.Predicted },
		"forecast.deadline":       func(c *route.Config) { c.ForecastDeadline = 0 },
		"forecast.candidates":     func(c *route.Config) { c.ForecastCandidates = -1 },
		"forecast.probe_interval": func(c *route.Config) { c.ProbeInterval = -1 },
		"scrape.max_age":          func(c *route.Config) { c.ScrapeMaxAge = 0 },
		"settings.exploration":    func(c *route.Config) { c.Settings.Exploration = math.NaN() },

		"settings.exploration_harm":                func(c *route.Config) { c.Settings.ExplorationHarm = -1 },
		"settings.sticky_saved":                    func(c *route.Config) { c.Settings.StickySaved = -1 },
		"settings.max_ttft_penalty":                func(c *route.Config) { c.Settings.MaxTTFTPenalty = feature.Seconds(math.NaN()) },
		"settings.predicted_ttft_penalty":          func(c *route.Config) { c.Settings.PredictedPenalty = -5 },
		"settings.tokens_per_request":              func(c *route.Config) { c.Settings.TokensPerRequest = math.Inf(1) },
		"settings.default_peak_prefill_throughput": func(c *route.Config) { c.Settings.DefaultThroughput = math.NaN() },

		"complete_share":  func(c *route.Config) { c.CompleteShare = 1.5 },
		"tokens_per_byte": func(c *route.Config) { c.TokensPerByte = 0 },
		"profile":         func(c *route.Config) { c.DefaultProfile.MaxNumSeqs = 0 },
	} {
		c := route.Defaults()
		c.DefaultProfile = class
		if err := c.Check(); err != nil {
			t.Fatalf("the defaults: %v", err)
		}
		spoil(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: error is %v", key, err)
		}
	}
}
