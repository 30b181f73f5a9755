package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
)

func TestInProcessConfig(t *testing.T) {
	t.Parallel()
	short, err := parseConfig([]byte("predictor: in-process\n"))
	if err != nil {
		t.Fatal(err)
	}
	long, err := parseConfig([]byte("predictor: {in_process: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !short.Predictor.InProcess || short.Predictor != long.Predictor {
		t.Errorf("the word gives %+v, the key %+v", short.Predictor, long.Predictor)
	}
	if keys, err := parseConfig([]byte("predictor: {in_process: true, poll_interval: 7s}\n")); err != nil ||
		keys.Predictor.PollInterval != 7*time.Second || keys.Predictor.Evaluator != short.Predictor.Evaluator {
		t.Errorf("keys beside it: %+v, %v", keys.Predictor, err)
	}
	for _, m := range []mistake{
		{args: []string{"router", "--check-config"}, config: "predictor: outside\n", says: []string{"predictor", "in-process", `"outside"`}},
		{args: []string{"predictor"}, config: "predictor: in-process\n", says: []string{"predictor", "in-process", "router"}},
		{args: []string{"router", "--check-config"}, config: "predictor:\n  in_process: true\n  listen: 127.0.0.1:9\n", says: []string{"line 3", "predictor.listen", "in-process"}},
		{args: []string{"router", "--check-config"}, config: "predictor: {admin: 127.0.0.1:9, in_process: true}\n", says: []string{"predictor.admin", "in-process"}},
		{args: []string{"router", "--check-config"}, config: "predictor: {max_waiting: 0}\n", says: []string{"predictor.max_waiting", "at least 1"}},
	} {
		m.check(t)
	}
}

// A store that does not answer is no reason to call a predictor untrained.
func TestPredictorReadinessWithoutStore(t *testing.T) {
	t.Parallel()
	if says, err := predictorReady(predictor.Status{Schema: feature.Schema}); err == nil || !strings.HasPrefix(err.Error(), "untrained") {
		t.Errorf("nothing published: %q, %v, want untrained", says, err)
	}
	away := predictor.Status{SourceError: "connection refused"}
	if says, err := predictorReady(away); err == nil || !strings.HasPrefix(err.Error(), "failed") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the store is away: %q, %v, want failed with the reason", says, err)
	}
	away.LLMs = []predictor.LLMStatus{{LLM: llm, State: predictor.Serving}}
	if says, err := predictorReady(away); err != nil || !strings.Contains(says, "connection refused") {
		t.Errorf("served all the same: %q, %v, want ready with the reason", says, err)
	}
}

// A router that forecasts itself starts cold, hears of the first bundle and
// decides by it, with nobody beside it.
func TestInProcessPredictor(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	config := fmt.Sprintf("predictor: {in_process: true, poll_interval: 100ms}\n"+
		"router:\n  name: e2e\n  listen: 127.0.0.1:0\n  admin: 127.0.0.1:0\n  endpoints: %s\n"+
		"  forecast: {deadline: 2s, probe_interval: 100ms, return_hold: 100ms}\n", listed(startFleet(t, 2)))
	p := start(t, database, "router", "--config", write(t, "spillway.yaml", config))
	serves := p.logged("router serves")
	router := &routerProcess{p, "http://" + attribute(t, serves, "listen"), "http://" + attribute(t, serves, "admin")}
	if a := router.served(t); a.header.Get("X-Spillway-Policy") == "predicted" {
		t.Errorf("without a bundle forecasts decide: %v", a.header)
	}

	_, publish := publisher(t, database)
	publish(featurestore.Bundle{LLM: llm, Bytes: smallBundle(t), Accepted: true})
	p.logged("bundle swapped in")
	eventually(t, func(context.Context) error {
		if a := router.served(t); a.header.Get("X-Spillway-Policy") != "predicted" {
			return fmt.Errorf("forecasts do not decide: %v", a.header)
		}
		return nil
	})
	t.Run("sheds", func(t *testing.T) { shedsOnRequest(t, database, router) })

	metrics, err := reach(t.Context(), "GET", router.admin+"/metrics", nil)
	if err != nil || !strings.Contains(string(metrics.body), `spillway_predictor_requests_total{status="ok"}`) {
		t.Errorf("the router's metrics say nothing of its forecasts: %v", err)
	}
}

// shedsOnRequest asks for what nobody can do: with the permission to be turned
// away that happens, is said and is stored; without it the request is served.
func shedsOnRequest(t *testing.T, database string, router *routerProcess) {
	const impossible = `,"spillway":{"slo_ttft_ms":0.01`
	var a answer
	eventually(t, func(context.Context) error { // until its forecast is in time
		if a = post(t, router.front+"/v1/chat/completions", chat(impossible+`,"priority":-1}`)); a.status != http.StatusTooManyRequests {
			return fmt.Errorf("answered %d: %v", a.status, a.header)
		}
		return nil
	})
	if a.header.Get("X-Spillway-Reason") != "shed" || a.header.Get("Retry-After") != "1" || !strings.Contains(a.header.Get("X-Spillway-Decision"), "; shed with probability 1.00") {
		t.Errorf("turned away with %v", a.header)
	}
	e := explained(t, database, a.decisionID())
	if e.Chosen != "" || e.Priority != -1 || e.SLOTTFT != 1e-5 || e.ShedChance != 1 || e.Replay != "the same choice and probabilities" ||
		len(e.Outcomes) != 1 || e.Outcomes[0].Status != feature.Shed || e.Candidates[0].Terms == nil {
		t.Errorf("explained %+v", e)
	}
	if text := must(t, database, "explain", a.decisionID()); !strings.Contains(text, "turned the request away") || !strings.Contains(text, "outcome: shed") {
		t.Errorf("explained as\n%s", text)
	}
	if a := post(t, router.front+"/v1/chat/completions", chat(impossible+`}`)); a.status != http.StatusOK {
		t.Errorf("without permission answered %d: %s", a.status, a.body)
	}
	if a := post(t, router.front+"/v1/chat/completions", chat(`,"spillway":{"slo_ttft":1}`)); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "slo_ttft_ms") {
		t.Errorf("an unknown hint is answered %d: %s", a.status, a.body)
	}
}
