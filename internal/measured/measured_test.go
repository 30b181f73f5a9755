package measured_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
)

// alike compares numbers to a part in 1e12; unknown is like unknown.
var alike = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return near(a, b) }),
	cmp.Comparer(func(a, b feature.Seconds) bool { return near(float64(a), float64(b)) }),
}

func near(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-12*math.Abs(b)
}

const siliconHeader = "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,batch_size,tp_size,attention_dp_size,moe_ep_size,silicon_ttft_ms,silicon_tpot_ms\n"

func TestSilicon(t *testing.T) {
	rows, report, err := measured.Collect(measured.Silicon(strings.NewReader(siliconHeader +
		"a,\"x; silicon_concurrency=32; y\",vllm,0.12.0,Qwen/Qwen3-32B,h100_sxm,,agg,1024,128,1,2,,1,250.5,29.38\n" +
		"b,,sglang,,DeepSeek,h200_sxm,fp8,agg,1000,100,64,1,16,4,500,50\n" +
		"c,,sglang,,DeepSeek,gb200,fp8,disagg,1000,100,,,,,500,50\n")))
	if err != nil || report.Broken != 0 {
		t.Fatal(err, report)
	}
	want := []measured.SteadyState{
		{Deployment: measured.Deployment{LLM: "Qwen/Qwen3-32B", GPU: "h100_sxm", Engine: "vllm", Version: "0.12.0", TensorParallel: 2, ExpertParallel: 1, DataParallel: 1},
			PromptTokens: 1024, OutputTokens: 128, Concurrency: 32, TTFT: 0.2505, TPOT: 0.02938},
		{Deployment: measured.Deployment{LLM: "DeepSeek", GPU: "h200_sxm", Engine: "sglang", Precision: "fp8", TensorParallel: 1, ExpertParallel: 4, DataParallel: 16},
			PromptTokens: 1000, OutputTokens: 100, Concurrency: 4, TTFT: 0.5, TPOT: 0.05},
		{Deployment: measured.Deployment{LLM: "DeepSeek", GPU: "gb200", Engine: "sglang", Precision: "fp8", ExpertParallel: 1, DataParallel: 1, Split: true},
			PromptTokens: 1000, OutputTokens: 100, Concurrency: 1, TTFT: 0.5, TPOT: 0.05},
	}
	if diff := cmp.Diff(want, rows, alike); diff != "" {
		t.Error(diff)
	}
	groups := measured.Groups(rows, func(r measured.SteadyState) measured.Deployment { return r.Deployment })
	var names []string
	for _, g := range groups {
		names = append(names, g.Deployment.String())
	}
	if diff := cmp.Diff([]string{"DeepSeek/gb200/sglang/fp8/tp0/disagg", "DeepSeek/h200_sxm/sglang/fp8/tp1/ep4/dp16", "Qwen/Qwen3-32B/h100_sxm/vllm-0.12.0/tp2"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestLatencyPredictor(t *testing.T) {
	rows, _, err := measured.Collect(measured.LatencyPredictor(strings.NewReader(
		`{"kv_cache_percentage": 0.25, "input_token_length": 6545, "num_request_waiting": 1, "num_request_running": 3, "num_tokens_generated": 0, "actual_ttft_ms": 1738, "actual_tpot_ms": 0, "prefix_cache_score": 0.98, "prefill_tokens_in_flight": 10176}
{"kv_cache_percentage": 0, "input_token_length": 10, "num_request_waiting": 0, "num_request_running": 0, "actual_ttft_ms": 0, "actual_tpot_ms": 20, "prefill_tokens_in_flight": 0}
`)))
	if err != nil {
		t.Fatal(err)
	}
	unknown := feature.Unknown
	want := []measured.Dispatch{
		{PromptTokens: 6545, UncachedTokens: 6545, OutputTokens: unknown, InFlight: 3, Waiting: 1, PrefillTokens: 10176, KVUsed: 0.25, TTFT: 1.738, TPOT: feature.Seconds(unknown)},
		{PromptTokens: 10, UncachedTokens: 10, OutputTokens: unknown, TTFT: feature.Seconds(unknown), TPOT: 0.02},
	}
	if diff := cmp.Diff(want, rows, alike); diff != "" {
		t.Error(diff)
	}
}

func TestServingSim(t *testing.T) {
	rows, _, err := measured.Collect(measured.ServingSim(strings.NewReader(
		`{"request_id": "bench-1", "input_toks": 1034, "output_toks": 769, "arrival_time": 1787267980.3, "queued_ts": 10, "scheduled_ts": 10.5, "first_token_ts": 11, "last_token_ts": 14}`)))
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Wait() != 0.5 || r.Prefill() != 0.5 || r.Decode() != 3 || r.PromptTokens != 1034 || r.OutputTokens != 769 {
		t.Errorf("read %+v", r)
	}
	e, err := measured.ServingSimEngine(strings.NewReader(`{"model": "m", "vllm_version": "0.19.0", "engine_kwargs": {"tensor_parallel_size": 1, "data_parallel_size": 2,
		"max_num_seqs": 128, "max_num_batched_tokens": 2048}, "kv_cache": {"block_size": 16, "num_kv_tokens": 41408}, "hardware": {"device_name": "card"}}`))
	want := measured.Engine{LLM: "m", Device: "card", Version: "0.19.0", TensorParallel: 1, DataParallel: 2, MaxNumSeqs: 128, MaxBatchedTokens: 2048, BlockTokens: 16, KVCapacityTokens: 41408}
	if diff := cmp.Diff(want, e); err != nil || diff != "" {
		t.Error(err, diff)
	}
	ticks, _, err := measured.Collect(measured.ServingSimTicks(strings.NewReader("t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n1.0,3392.0,2.0,5,2,13.22\n")))
	if err != nil || len(ticks) != 1 || ticks[0].KVUsed != 0.1322 || ticks[0].Running != 5 {
		t.Error(ticks, err)
	}
}

func TestSplitwise(t *testing.T) {
	rows, _, err := measured.Collect(measured.Splitwise(strings.NewReader(
		"model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,prompt_time,token_time,e2e_time,tensor_parallel\n" +
			"llama2-70b,a100-80gb,512,4,128,1.0,0.7,196.25,54.88,7168.98,2\n")))
	want := []measured.Batch{{
		Deployment:   measured.Deployment{LLM: "llama2-70b", GPU: "a100-80gb", TensorParallel: 2, ExpertParallel: 1, DataParallel: 1},
		PromptTokens: 512, OutputTokens: 128, Sequences: 4, Prefill: 0.19625, Step: 0.05488,
	}}
	if diff := cmp.Diff(want, rows, alike); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// Broken lines are named and skipped.
func TestBrokenLines(t *testing.T) {
	good := "a,,vllm,,m,g,,agg,10,10,4,2,,1,100,10\n"
	for _, c := range []struct{ name, text, want string }{
		{"a bad number", siliconHeader + "a,,vllm,,m,g,,agg,ten,10,4,2,,1,100,10\n" + good, `line 2: isl "ten" is no number`},
		{"out of range", siliconHeader + "a,,vllm,,m,g,,agg,10,10,4,2,,1,-1,10\n" + good, "line 2: silicon_ttft_ms is -1"},
		{"too few columns", siliconHeader + "a,b\n" + good, "line 2: 2 values, the header names 16"},
		{"no clients", siliconHeader + "a,,vllm,,m,g,,agg,10,10,,2,,1,100,10\n" + good, "line 2: neither silicon_concurrency nor batch_size"},
		{"no parallelism", siliconHeader + "a,,vllm,,m,g,,agg,10,10,4,,,1,100,10\n" + good, "line 2: tp_size is missing"},
		{"a stray quote", siliconHeader + "a,\",vllm\n" + good, "line 2: no comma-separated values"},
	} {
		rows, report, err := measured.Collect(measured.Silicon(strings.NewReader(c.text)))
		if err != nil || len(rows) != 1 || report.Broken != 1 || !strings.HasPrefix(report.First[0].Error(), c.want) {
			t.Errorf("%s: %d rows, %d broken, %v, %v", c.name, len(rows), report.Broken, report.First, err)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "no rows"},
		{"another header", "a,b\n1,2\n", "no usable row: line 1: the header has no column backend"},
		{"only broken", siliconHeader + "x\n", "no usable row: line 2: 1 values"},
		{"an endless line", strings.Repeat("x", 2*measured.MaxLine), "read rows after line 0"},
	} {
		if _, _, err := measured.Collect(measured.Silicon(strings.NewReader(c.text))); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
	if _, _, err := measured.Collect(measured.ServingSim(strings.NewReader(
		`{"input_toks": 1, "output_toks": 1, "arrival_time": 1, "queued_ts": 3, "scheduled_ts": 2, "first_token_ts": 4, "last_token_ts": 4}`))); err == nil || !strings.Contains(err.Error(), "do not follow") {
		t.Errorf("a schedule before the queue: %v", err)
	}
	if _, _, err := measured.Collect(measured.LatencyPredictor(strings.NewReader(`{"input_token_length": 5}`))); err == nil || !strings.Contains(err.Error(), "kv_cache_percentage is missing") {
		t.Errorf("a missing number: %v", err)
	}
	broken := errors.New("disk on fire")
	if _, _, err := measured.Collect(measured.Silicon(io.MultiReader(strings.NewReader(siliconHeader), failing{broken}))); !errors.Is(err, broken) {
		t.Errorf("a reader's error became %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestOpen(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, "text")
	w.Close()
	for _, in := range []string{"text", z.String()} {
		r, err := measured.Open(strings.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(r); string(out) != "text" || err != nil {
			t.Errorf("read %q, %v", out, err)
		}
	}
	if _, err := measured.Open(strings.NewReader("\x1f\x8bnonsense")); err == nil {
		t.Error("nonsense is gzip")
	}
}

// Every public file is read without a broken line.
func TestPublicFiles(t *testing.T) {
	data := os.Getenv("SPILLWAY_DATA")
	if data == "" {
		t.Skip("SPILLWAY_DATA is not set: the public measurements are not here")
	}
	check(t, data, "silicon/silicon_sample.csv.gz", 4213, measured.Silicon)
	check(t, data, "silicon/splitwise_perf_model.csv", 1260, measured.Splitwise)
	check(t, data, "measured-h200/sharegpt-h200.jsonl", 3400, measured.LatencyPredictor)
	check(t, data, "measured-h200/bimodal-h200-first80.jsonl", 2720, measured.LatencyPredictor)
	for _, run := range []string{"RTX4090_Llama-3.1-8B", "RTXPRO6000_Llama-3.1-8B", "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507"} {
		check(t, data, "measured-llmservingsim/"+run+".requests.jsonl", 300, measured.ServingSim)
		f, err := os.Open(filepath.Join(data, "measured-llmservingsim", run+".meta.json"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if e, err := measured.ServingSimEngine(f); err != nil || e.MaxBatchedTokens != 2048 {
			t.Errorf("%s: %+v, %v", run, e, err)
		}
	}
}

func check[T any](t *testing.T, data, name string, want int, read func(io.Reader) iter.Seq2[T, error]) {
	t.Helper()
	f, err := os.Open(filepath.Join(data, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := measured.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, report, err := measured.Collect(read(r))
	if err != nil || len(rows) != want || report.Broken != 0 {
		t.Errorf("%s: %d rows, %d broken, %v; want %d rows", name, len(rows), report.Broken, err, want)
	}
}
