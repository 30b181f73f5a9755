package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/predictor"
)

// smallBundle is the bytes of a bundle that hardly departs from the prior.
func smallBundle(t *testing.T) []byte {
	t.Helper()
	var examples []feature.Vector
	for i := range 40 {
		prompt := float64(10 + 200*i)
		examples = append(examples, feature.Of(
			feature.Request{PromptTokens: prompt, CachedTokens: 0, ExpectedOutputTokens: 100, MaxOutputTokens: feature.Unknown, Completions: 1},
			feature.Load{
				Scraped: feature.Scraped{Running: float64(i), KVUsed: float64(i) / 50, Age: 0.1},
				Profile: feature.Profile{PeakPrefillThroughput: 15928, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 500000, SpeedFactor: 1},
			},
			feature.Prior{TTFT: feature.Seconds(0.02 + prompt/15928), TPOT: feature.Seconds(0.01 + float64(i)/2000)},
		))
	}
	b := bundle.Bundle{LLM: llm, CreatedAt: time.Now().UTC(), Support: bundle.SupportOf(examples)}
	for i := range b.Heads {
		stump, err := forest.New(forest.Header{FeatureNames: feature.Names()}, []forest.Tree{{
			Splits: []forest.Split{{Feature: int32(feature.ColumnPromptTokens), Threshold: 3000, Left: ^0, Right: ^1, Missing: forest.MissingNaN}},
			Leaves: []forest.Leaf{{Value: 0.01}, {Value: 0.02 + 0.01*float64(i)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		b.Heads[i] = bundle.Head{Forest: stump.Text(), Low: -1, High: 1}
	}
	made, err := bundle.New(b, examples)
	if err != nil {
		t.Fatal(err)
	}
	data, err := bundle.Encode(made)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Whatever is wrong with the bundle that the store says to serve, the
// predictor keeps the one before, tells why, and the router stays live on it.
func TestCorruptBundle(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	store, err := featurestore.Open(t.Context(), database, featurestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lease, ok, err := store.AcquireLease(t.Context(), "refit", "test", time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	publish := func(data []byte) int64 {
		t.Helper()
		version, _, err := store.PublishBundle(t.Context(), lease, featurestore.Bundle{LLM: llm, Bytes: data, Accepted: true, MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return version
	}

	socket := "unix://" + filepath.Join(shortDir(t), "predictor.sock")
	config := write(t, "predictor.yaml", fmt.Sprintf("predictor: {listen: %q, admin: \"\", poll_interval: 100ms}\n", socket))
	start(t, database, "predictor", "--config", config).logged("predictor serves")
	if _, said, code := run(t, "", "health", socket); code != 1 || !strings.Contains(said, "untrained") || !strings.Contains(said, "no bundle is published yet") {
		t.Errorf("without a bundle health exits with %d and says %q", code, said)
	}
	router := startRouter(t, database, "console_drill: true", "endpoints: "+listed(startFleet(t, 2)),
		fmt.Sprintf("forecast: {address: %q, deadline: 2s, probe_interval: 100ms, return_hold: 100ms}", socket))
	if a := router.served(t); a.header.Get("X-Spillway-Policy") == "predicted" {
		t.Errorf("without a bundle forecasts decide: %v", a.header)
	}

	client, err := predictor.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	status := func(ctx context.Context) (predictor.LLMStatus, error) {
		s, err := client.Status(ctx)
		if err != nil || len(s.LLMs) != 1 {
			return predictor.LLMStatus{}, fmt.Errorf("%+v %w", s, err)
		}
		return s.LLMs[0], nil
	}
	// live sends a request that the bundle's forecasts are to decide.
	live := func(t *testing.T, version int64) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if a := router.served(t); a.header.Get("X-Spillway-Policy") != "predicted" {
				return fmt.Errorf("decided by %s", a.header.Get("X-Spillway-Policy"))
			}
			return nil
		})
		e := explained(t, database, router.served(t).decisionID())
		if e.State != "live" || e.Policy != "predicted" || e.Bundle != version || !(e.Candidates[0].TTFT > 0) || e.Candidates[0].Terms == nil {
			t.Errorf("want a forecast of bundle %d: %+v", version, e)
		}
	}

	data := smallBundle(t)
	good := publish(data)
	eventually(t, func(ctx context.Context) error {
		s, err := status(ctx)
		if err == nil && (s.State != predictor.Serving || s.Bundle != good) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	if out := must(t, "", "health", socket); !strings.Contains(out, fmt.Sprintf("serving, bundle %d", good)) {
		t.Errorf("health prints %q", out)
	}
	live(t, good)

	for _, c := range []struct {
		name    string
		publish func() int64
		reason  string
	}{
		{"cut off", func() int64 { return publish(data[:len(data)/2]) }, "decode bundle"},
		{"never a bundle", func() int64 { return publish([]byte("not a bundle")) }, "decode bundle"},
		{"changed in the database", func() int64 {
			// In one statement, so that the predictor never sees it whole.
			execute(t, database, `WITH changed AS (
				INSERT INTO bundles (llm, bytes, sha256, metadata, verdict, accepted)
				SELECT llm, set_byte(bytes, length(bytes)/2, 255 - get_byte(bytes, length(bytes)/2)), sha256, metadata, verdict, accepted
				FROM bundles WHERE version = $1 RETURNING version)
				UPDATE served SET bundle = (SELECT version FROM changed), validated_at = now()`, good)
			p, err := store.ServedPointer(t.Context(), llm)
			if err != nil {
				t.Fatal(err)
			}
			return p.Version
		}, "SHA-256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := c.publish()
			eventually(t, func(ctx context.Context) error {
				s, err := status(ctx)
				if err == nil && s.Published != bad {
					err = fmt.Errorf("not noticed: %+v", s)
				}
				if err == nil && (s.State != predictor.Failed || s.Bundle != good || !strings.Contains(s.LastError, c.reason)) {
					t.Fatalf("want bundle %d kept, and failed for %q: %+v", good, c.reason, s)
				}
				return err
			})
			state := fmt.Sprintf("failed, bundle %d (bundle %d: ", good, bad)
			if _, said, code := run(t, "", "health", socket); code != 1 || !strings.Contains(said, state) || !strings.Contains(said, c.reason) {
				t.Errorf("health exits with %d and says %q", code, said)
			}
			live(t, good)
		})
	}
	if out := must(t, database, "store", "status"); !strings.Contains(out, "4 stored, 4 accepted") {
		t.Errorf("store status prints\n%s", out)
	}
	// A good one ends it.
	next := publish(data)
	live(t, next)

	// The console knows all of it, and lets the fallback decide when told to.
	last := router.served(t)
	for path, want := range map[string]string{
		fmt.Sprintf("/bundles?a=%d&b=%d", good, next):     "beside",
		"/decisions/" + last.decisionID():                 "the same choice and probabilities",
		"/decisions/00000000-0000-7000-8000-000000000000": "neither this router&#39;s memory nor the store",
		"/": "fallback drill for 1 minute",
	} {
		page, err := reach(t.Context(), http.MethodGet, router.admin+path, nil)
		if err != nil || !strings.Contains(string(page.body), want) {
			t.Errorf("%s: %v, %d, lacks %q: %s", path, err, page.status, want, page.body)
		}
	}
	answer, err := http.PostForm(router.admin+"/drill", url.Values{"for": {"1m0s"}})
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if a := router.served(t); a.header.Get("X-Spillway-Policy") == "predicted" || !strings.Contains(a.header.Get("X-Spillway-Decision"), "fallback drill") {
		t.Errorf("in a drill %v decides", a.header)
	}
}

// With the way past a pooler, a predictor that hardly polls hears of a bundle.
func TestPredictorListens(t *testing.T) {
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	t.Setenv("LISTEN_DATABASE_URL", database)
	socket := "unix://" + filepath.Join(shortDir(t), "predictor.sock")
	config := write(t, "predictor.yaml", fmt.Sprintf("predictor: {listen: %q, admin: \"\", poll_interval: 1h}\ntrainer: {schedule: \"@every 1h\"}\n", socket))
	p := start(t, database, "predictor", "--config", config)
	p.logged("listening for bundles")

	_, publish := publisher(t, database)
	publish(featurestore.Bundle{LLM: llm, Bytes: smallBundle(t), Accepted: true})
	p.logged("bundle swapped in")
	if out := must(t, "", "health", socket); !strings.Contains(out, llm+": serving") {
		t.Errorf("health prints %q", out)
	}
}
