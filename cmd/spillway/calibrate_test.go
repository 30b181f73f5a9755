package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/physics"
)

// sketch is the profile of an engine that is measured within a second or two.
const sketch = `{"name": "sketch", "source": "test", "coefficients": {"a": 0.003, "b": 5e-6, "c": 2e-9, "d": 0.0004, "e": 0.5e-6},
	"max_batched_tokens": 2048, "max_num_seqs": 32, "kv_capacity_tokens": 32768, "block_tokens": 16, "peak_prefill_throughput": 100000, "noise_std_dev": 0.01}`

// briefly are the flags of a calibration of it.
var briefly = []string{"--max-batched-tokens", "2048", "--sizes", "256,1024,2048,4096", "--repeats", "3", "--batches", "1,6", "--rounds", "1", "--output", "32"}

func TestCalibrate(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	url := startFleet(t, 1, "--profile", write(t, "sketch.json", sketch))[0]
	file := filepath.Join(shortDir(t), "mine.json")
	args := append([]string{"calibrate", "--url", url, "--hardware", "2xH100", "--out", file, "--class", "fast", "--store", "--json"}, briefly...)
	stdout, stderr, code := run(t, database, args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got struct {
		LLM       string
		Engine    string
		Peak      calibrate.Peak
		Tokenizer calibrate.Tokenizer
		Published struct {
			Throughput float64
			SameLLM    bool `json:"same_llm"`
			Ratio      float64
		}
		Measurements calibrate.Measurements
		Profile      physics.Profile
		Stored       int64
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	if got.LLM != llm || got.Engine != "spillway" || got.Stored != 1 || len(got.Measurements.Prefills) != 12 || len(got.Measurements.Decodes) != 4 {
		t.Errorf("it prints %s", stdout)
	}
	if n := got.Published; !n.SameLLM || n.Throughput == 0 || math.Abs(n.Ratio*n.Throughput/got.Peak.Throughput-1) > 1e-9 {
		t.Errorf("published beside it: %+v", n)
	}
	p := got.Profile
	if p.Name != "qwen3-32b-2xh100" || p.MaxBatchedTokens != 2048 || p.KVCapacityTokens != 32768 || p.PeakPrefillThroughput != got.Peak.Throughput {
		t.Errorf("profile %+v", p)
	}
	// A rough look: package measure's own test is the sharp one.
	if c := p.Coefficients; math.Abs(c.A/0.003-1) > 0.5 || math.Abs(got.Tokenizer.TokensPerByte/0.25-1) > 0.01 {
		t.Errorf("coefficients %+v, tokenizer %+v", c, got.Tokenizer)
	}
	if !strings.Contains(stderr, "--max-num-seqs") || !strings.Contains(stderr, "4 prompt lengths just settle the fit") || strings.Contains(stderr, "--max-batched-tokens") {
		t.Errorf("what was assumed is not told: %s", stderr)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if written, err := physics.Load(f); err != nil || written != p {
		t.Errorf("the file holds %+v, %v", written, err)
	}

	// The stored profile serves routers and trainers for a class that the
	// configuration does not name.
	class := fmt.Sprintf("endpoints: [{url: %q, class: fast, llms: [%s]}]", url, llm)
	r := startRouter(t, database, class, unforecast)
	if line := r.logged("a class has its calibrated profile"); attribute(t, line, "class") != "fast" || attribute(t, line, "profile") != p.Name {
		t.Errorf("the router says %s", line)
	}
	e := explained(t, database, r.served(t).decisionID())
	if tpot := float64(e.Candidates[0].PriorTPOT); !(tpot > p.Coefficients.A && tpot < 2*p.Coefficients.A) { // the default profile's step takes 14 ms
		t.Errorf("the prior's TPOT is %v s of an engine whose step takes %v", tpot, p.Coefficients.A)
	}
	if _, said, _ := run(t, database, "trainer", "--once"); !strings.Contains(said, "a class has its calibrated profile") {
		t.Errorf("the trainer says %s", said)
	}

	// For people.
	out := must(t, "", append([]string{"calibrate", "--url", url}, briefly...)...)
	for _, want := range []string{"T(B)", "left out", "peak prefill throughput", "quadratic fit", "published, same LLM", "tokens per byte", `"coefficients"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestCalibrateMistakes(t *testing.T) {
	t.Parallel()
	unmigrated := newDatabase(t)
	absent := filepath.Join(t.TempDir(), "absent")
	// An endpoint of its own for each case: what one case sends, another would
	// take for somebody's traffic.
	idle := startFleet(t, 12, "--profile", write(t, "sketch.json", sketch))
	next := 0
	url := func() string { next++; return idle[next-1] }
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
		case "/metrics":
			fmt.Fprint(w, "vllm:num_requests_running 2\nvllm:num_requests_waiting 0\n")
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer busy.Close()
	secure := httptest.NewUnstartedServer(busy.Config.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	t.Run("mistakes", func(t *testing.T) { // waits for the parallel ones, which need the servers
		for _, m := range []mistake{
			{name: "no URL", says: []string{"--url", "http://"}},
			{name: "URL without a scheme", args: []string{"--url", "10.0.0.1:8000"}, says: []string{"--url", "http://"}},
			{name: "nobody there", args: []string{"--url", "http://127.0.0.1:1"}, says: []string{"--url http://127.0.0.1:1", "refused"}},
			{name: "another LLM", args: []string{"--url", url(), "--model", "n"}, says: []string{llm, "--model"}},
			{name: "busy", args: []string{"--url", busy.URL}, says: []string{"busy", "2 requests run", "--force"}},
			{name: "unknown authority", args: []string{"--url", secure.URL}, says: []string{"TLS", "--ca"}},
			{name: "no such authority", args: []string{"--url", secure.URL, "--ca", absent}, says: []string{"--ca", absent}},
			{name: "no authority", args: []string{"--url", secure.URL, "--ca", write(t, "ca.pem", "none")}, says: []string{"--ca", "PEM"}},
			{name: "no API", args: []string{"--url", url(), "--api", "tea"}, says: []string{"--api", `"tea"`}},
			{name: "no metrics", args: []string{"--url", url(), "--metrics-path", "/elsewhere"}, says: []string{"404", "--metrics-path", "--force"}},
			{name: "a relative path", args: []string{"--url", url(), "--metrics-path", "x"}, says: []string{"--metrics-path"}},
			{name: "unknown cache", args: []string{"--url", busy.URL, "--force"}, says: []string{"--kv-capacity-tokens"}},
			{name: "fails", args: []string{"--url", busy.URL, "--force", "--kv-capacity-tokens", "100000"}, says: []string{busy.URL, "status 418"}},
			{name: "long prompts", args: []string{"--url", url(), "--sizes", "100,200,90000"}, says: []string{"--sizes", "90000"}},
			{name: "large batches", args: []string{"--url", url(), "--batches", "1,900"}, says: []string{"--batches", "900"}},
			{name: "a negative limit", args: []string{"--url", url(), "--max-num-seqs", "-1"}, says: []string{"--max-num-seqs", "-1"}},
			{name: "few tokens", args: []string{"--url", url(), "--max-tokens", "1000"}, says: []string{"--max-tokens", "1000"}},
			{name: "no time", args: []string{"--url", url(), "--max-time", "20ms"}, says: []string{"--max-time", "20ms"}},
			{name: "class without a store", args: []string{"--url", url(), "--class", "fast"}, says: []string{"--class", "--store"}},
			{name: "no store", args: []string{"--url", url(), "--store"}, says: []string{"DATABASE_URL is empty"}},
			{name: "old tables", database: unmigrated, args: []string{"--url", url(), "--store"}, says: []string{"--store", "store migrate"}},
		} {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				m.args = append([]string{"calibrate"}, m.args...)
				m.check(t)
			})
		}
	})
}
