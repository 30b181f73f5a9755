package pool_test

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/spillway-llm/spillway/router/pool"
)

var nan = math.NaN()

const (
	vllmPage = `# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.70000000025e+09
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="qwen3-32b"} 12.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="qwen3-32b"} 3.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="qwen3-32b"} 0.25
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{engine="0",model_name="qwen3-32b"} 0.9
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="16384",num_gpu_blocks_override="None"} 1.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="qwen3-32b"} 5000.0
`
	oldVLLMPage = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="a"} 1.0
vllm:num_requests_waiting{model_name="a"} 0.0
vllm:gpu_cache_usage_perc{model_name="a"} 1.00005
vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0
`
	ranksPage = `vllm:num_requests_running{engine="0"} 10
vllm:num_requests_running{engine="1"} 5
vllm:num_requests_waiting{engine="0"} 0
vllm:num_requests_waiting{engine="1"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="100"} 1
`
	sglangPage = `sglang:num_running_reqs{model_name="m",tp_rank="0"} 7.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 2.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.28
sglang:max_total_num_tokens{model_name="m"} 456000
`
	trtPage = `trtllm_num_requests_running{model_name="m",engine_type="trtllm"} 3
trtllm_num_requests_waiting{model_name="m",engine_type="trtllm"} 1
trtllm_kv_cache_utilization{model_name="m",engine_type="trtllm"} 0.5
trtllm_kv_cache_max_blocks{model_name="m"} 1000
trtllm_kv_cache_tokens_per_block{model_name="m"} 32
`
	tritonPage = `# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 9
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 6
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6239
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.125
`
	oddPage = "\t vllm:num_requests_running {engine = \"0\" , note=\"a } \\\" b\\\\\",} 4 1700000000000\r\n" +
		"vllm:num_requests_waiting 2"
	nonsensePage = `vllm:num_requests_running -1
vllm:num_requests_waiting NaN
vllm:kv_cache_usage_perc 43
vllm:cache_config_info{block_size="0",num_gpu_blocks="100"} 1
process_start_time_seconds +Inf
`
	brokenPage = `vllm:num_requests_running{engine="0" 4
vllm:num_requests_waiting{engine="0"} four
vllm:kv_cache_usage_perc
vllm:num_requests_running_total 3
{"vllm:num_requests_running"} 5
`
)

func TestRead(t *testing.T) {
	unknown := pool.Reading{Waiting: nan, Running: nan, KVUsed: nan, KVCapacityTokens: nan, BlockTokens: nan, MaxNumSeqs: nan, StartTime: nan, Work: nan}
	with := func(change func(*pool.Reading)) pool.Reading {
		r := unknown
		change(&r)
		return r
	}
	for _, test := range []struct {
		name, page string
		want       pool.Reading
	}{
		{"vLLM, old name beside the new", vllmPage, with(func(r *pool.Reading) {
			r.Waiting, r.Running, r.KVUsed, r.KVCapacityTokens, r.BlockTokens = 3, 12, 0.25, 262144, 16
			r.StartTime, r.Work = 1700000000.25, 5000
		})},
		{"older vLLM while it starts", oldVLLMPage, with(func(r *pool.Reading) {
			r.Waiting, r.Running, r.KVUsed, r.BlockTokens = 0, 1, 1, 16
		})},
		{"two ranks", ranksPage, with(func(r *pool.Reading) {
			r.Waiting, r.Running, r.KVUsed, r.KVCapacityTokens, r.BlockTokens = 4, 15, 0.75, 3200, 16
		})},
		{"SGLang", sglangPage, with(func(r *pool.Reading) {
			r.Waiting, r.Running, r.KVUsed, r.KVCapacityTokens = 2, 7, 0.28, 456000
		})},
		{"trtllm-serve", trtPage, with(func(r *pool.Reading) {
			r.Waiting, r.Running, r.KVUsed, r.KVCapacityTokens, r.BlockTokens = 1, 3, 0.5, 32000, 32
		})},
		{"Triton", tritonPage, with(func(r *pool.Reading) {
			r.Waiting, r.Running, r.KVUsed, r.KVCapacityTokens, r.BlockTokens, r.MaxNumSeqs = 3, 6, 0.125, 399296, 64, 512
		})},
		{"odd but valid", oddPage, with(func(r *pool.Reading) { r.Waiting, r.Running = 2, 4 })},
		{"impossible values", nonsensePage, unknown},
		{"broken lines", brokenPage, unknown},
		{"nothing", "", unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, pool.Read([]byte(test.page)), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissingNamesWhatRoutingWants(t *testing.T) {
	got := pool.Read([]byte(oldVLLMPage)).Missing()
	if diff := cmp.Diff([]string{"kv_capacity_tokens"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// twin reads a page through the reference parser. ok is false where that
// refuses the page, or where it reads a metric as something else than a
// number.
func twin(page []byte) (r pool.Reading, ok bool) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return r, false
	}
	for _, f := range families {
		if kind := f.GetType().String(); kind == "HISTOGRAM" || kind == "SUMMARY" {
			return r, false
		}
	}
	// find puts together the series of the first family there is.
	find := func(least float64, join func(a, b float64) float64, names ...string) float64 {
		for _, name := range names {
			name, labels, _ := strings.Cut(name, "{")
			labels, number, _ := strings.Cut(labels, "}")
			where, is, _ := strings.Cut(labels, "=")
			total, seen := nan, false
			for _, m := range families[name].GetMetric() {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				if where != "" && labels[where] != is {
					continue
				}
				v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
				if number != "" {
					v = nan
					if n, err := strconv.ParseFloat(strings.TrimSpace(labels[number]), 64); err == nil {
						v = n
					}
				}
				if !seen {
					total, seen = v, true
				} else {
					total = join(total, v)
				}
			}
			if seen {
				if total >= least && !math.IsInf(total, 0) {
					return total
				}
				return nan
			}
		}
		return nan
	}
	sum := func(a, b float64) float64 { return a + b }
	r = pool.Reading{
		Waiting: find(0, sum, "vllm:num_requests_waiting", "nv_trt_llm_request_metrics{request_type=waiting}"),
		Running: find(0, sum, "vllm:num_requests_running", "nv_trt_llm_request_metrics{request_type=scheduled}"),
		KVUsed: find(0, math.Max, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
			"nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
		BlockTokens: find(1, math.Max, "vllm:cache_config_info{}block_size", "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}"),
		MaxNumSeqs:  find(1, sum, "nv_trt_llm_request_metrics{request_type=max}"),
		StartTime:   find(0, math.Max, "process_start_time_seconds"),
		Work:        find(0, sum, "vllm:generation_tokens_total"),
	}
	r.KVCapacityTokens = r.BlockTokens * find(1, sum, "vllm:cache_config_info{}num_gpu_blocks", "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}")
	switch {
	case r.KVUsed > 1.01:
		r.KVUsed = nan
	case r.KVUsed > 1:
		r.KVUsed = 1
	}
	return r, true
}

func FuzzRead(f *testing.F) {
	for _, page := range []string{vllmPage, oldVLLMPage, ranksPage, tritonPage, oddPage, nonsensePage, brokenPage, sglangPage, trtPage} {
		f.Add([]byte(page))
	}
	f.Add([]byte("vllm:num_requests_waiting+0\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		got := pool.Read(page)
		for _, v := range []float64{got.Waiting, got.Running, got.KVUsed, got.KVCapacityTokens, got.BlockTokens, got.MaxNumSeqs, got.StartTime, got.Work} {
			if v < 0 || math.IsInf(v, -1) {
				t.Fatalf("impossible number in %+v", got)
			}
		}
		if got.KVUsed > 1 {
			t.Fatalf("kv_used %v", got.KVUsed)
		}
		// Names the twin does not know, families mixed over two engines, and
		// the quoted-name form are outside the comparison.
		for _, other := range []string{"sglang:", "trtllm_", "nv_inference", `{"`, "{\t", "{ "} {
			if bytes.Contains(page, []byte(other)) {
				return
			}
		}
		if bytes.Contains(page, []byte("vllm:")) && bytes.Contains(page, []byte("nv_trt")) {
			return
		}
		want, ok := twin(page)
		if !ok {
			return
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// bigPage is a page as a busy vLLM serves it: mostly histograms.
func bigPage() []byte {
	var b strings.Builder
	b.WriteString(vllmPage)
	for i := range 60 {
		fmt.Fprintf(&b, "# TYPE vllm:latency_%d_seconds histogram\n", i)
		for j := range 25 {
			fmt.Fprintf(&b, "vllm:latency_%d_seconds_bucket{engine=\"0\",le=\"%d\",model_name=\"qwen3-32b\"} %d.0\n", i, j, j*j)
		}
	}
	return []byte(b.String())
}

func TestReadAllocatesLittle(t *testing.T) {
	page := bigPage()
	if n := testing.AllocsPerRun(20, func() { pool.Read(page) }); n > 8 {
		t.Errorf("%v allocations a page, want at most 8", n)
	}
}

func BenchmarkRead(b *testing.B) {
	page := bigPage()
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		pool.Read(page)
	}
}

func BenchmarkExpfmt(b *testing.B) {
	page := bigPage()
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		parser := expfmt.NewTextParser(model.LegacyValidation)
		if _, err := parser.TextToMetricFamilies(bytes.NewReader(page)); err != nil {
			b.Fatal(err)
		}
	}
}
