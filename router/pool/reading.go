package pool

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Reading is what one metrics page says. Each number is NaN where the page
// does not say it, or says something it cannot be.
type Reading struct {
	Waiting          float64 // requests queued, over all engines behind the page
	Running          float64 // requests in a batch, over all engines
	KVUsed           float64 // used share of the KV cache, 0 to 1; of the fullest engine
	KVCapacityTokens float64 // tokens the KV caches of all engines hold
	BlockTokens      float64 // tokens in one cache block
	MaxNumSeqs       float64 // most sequences in one batch; few engines tell
	StartTime        float64 // of the process, Unix seconds
	Work             float64 // a counter of work done, which only a restart sets back
}

// Missing names the numbers of r that routing wants and the page did not give.
func (r Reading) Missing() []string {
	var names []string
	for _, x := range []struct {
		name  string
		value float64
	}{{"waiting", r.Waiting}, {"running", r.Running}, {"kv_used", r.KVUsed}, {"kv_capacity_tokens", r.KVCapacityTokens}} {
		if feature.IsUnknown(x.value) {
			names = append(names, x.name)
		}
	}
	return names
}

// signal is one number that is looked for on a page.
type signal int

const (
	waiting signal = iota
	running
	kvUsed
	kvTokens
	kvBlocks
	blockTokens
	maxNumSeqs
	startTime
	work
	signals // how many there are
)

// largest tells the signals of which several series give the largest; of all
// others they give the sum.
var largest = [signals]bool{kvUsed: true, blockTokens: true, startTime: true}

// source is where a signal is found: a metric's value, or the number in one of
// its labels.
type source struct {
	signal signal
	rank   int    // a page may carry an old name beside the new one: the lowest rank counts
	where  string // only series with this label
	is     string // ... of this value
	label  string // take this label's number instead of the value
}

// sources are the metric names of the engines:
//
//	vLLM          docs.vllm.ai, "Metrics"; gpu_cache_usage_perc until 0.10
//	SGLang        docs.sglang.ai, "Production metrics"
//	trtllm-serve  TensorRT-LLM's metrics collector
//	Triton        the tensorrtllm_backend's custom metrics
var sources = map[string][]source{
	"vllm:num_requests_waiting":    {{signal: waiting}},
	"vllm:num_requests_running":    {{signal: running}},
	"vllm:kv_cache_usage_perc":     {{signal: kvUsed}},
	"vllm:gpu_cache_usage_perc":    {{signal: kvUsed, rank: 1}},
	"vllm:cache_config_info":       {{signal: blockTokens, label: "block_size"}, {signal: kvBlocks, label: "num_gpu_blocks"}},
	"vllm:generation_tokens_total": {{signal: work}},

	"sglang:num_queue_reqs":          {{signal: waiting}},
	"sglang:num_running_reqs":        {{signal: running}},
	"sglang:token_usage":             {{signal: kvUsed}},
	"sglang:max_total_num_tokens":    {{signal: kvTokens}},
	"sglang:cache_config_info":       {{signal: blockTokens, label: "page_size"}, {signal: kvBlocks, label: "num_pages"}},
	"sglang:generation_tokens_total": {{signal: work}},

	"trtllm_num_requests_waiting":      {{signal: waiting}},
	"trtllm_num_requests_running":      {{signal: running}},
	"trtllm_kv_cache_utilization":      {{signal: kvUsed}},
	"trtllm_kv_cache_tokens_per_block": {{signal: blockTokens}},
	"trtllm_kv_cache_max_blocks":       {{signal: kvBlocks}},
	"trtllm_request_success_total":     {{signal: work}},

	"nv_trt_llm_request_metrics": {
		{signal: waiting, where: "request_type", is: "waiting"},
		{signal: running, where: "request_type", is: "scheduled"},
		{signal: maxNumSeqs, where: "request_type", is: "max"},
	},
	"nv_trt_llm_kv_cache_block_metrics": {
		{signal: kvUsed, where: "kv_cache_block_type", is: "fraction"},
		{signal: blockTokens, where: "kv_cache_block_type", is: "tokens_per"},
		{signal: kvBlocks, where: "kv_cache_block_type", is: "max"},
	},
	"nv_inference_request_success": {{signal: work}},

	"process_start_time_seconds": {{signal: startTime}},
}

// Read reads a page of the Prometheus text format, knowing the names of vLLM
// (present and older), SGLang, trtllm-serve and Triton's TensorRT-LLM backend.
// Series of several engines behind one page are put together.
func Read(page []byte) Reading {
	var found [signals]struct {
		seen  bool
		rank  int
		value float64
	}
	samples(page, func(name []byte) bool {
		_, ok := sources[string(name)]
		return ok
	}, func(name, labels []byte, value float64) {
		for _, s := range sources[string(name)] {
			if s.where != "" {
				if is, ok := label(labels, s.where); !ok || string(is) != s.is {
					continue
				}
			}
			v := value
			if s.label != "" {
				var ok bool
				if v, ok = labelNumber(labels, s.label); !ok {
					v = math.NaN() // "None" while the engine starts
				}
			}
			f := &found[s.signal]
			switch {
			case !f.seen || s.rank < f.rank:
				f.seen, f.rank, f.value = true, s.rank, v
			case s.rank > f.rank:
			case largest[s.signal]:
				f.value = max(f.value, v)
			default:
				f.value += v
			}
		}
	})
	at := func(s signal, least float64) float64 {
		if v := found[s].value; found[s].seen && v >= least && !math.IsInf(v, 0) {
			return v
		}
		return math.NaN()
	}
	r := Reading{
		Waiting:          at(waiting, 0),
		Running:          at(running, 0),
		KVUsed:           share(at(kvUsed, 0)),
		KVCapacityTokens: at(kvTokens, 1),
		BlockTokens:      at(blockTokens, 1),
		MaxNumSeqs:       at(maxNumSeqs, 1),
		StartTime:        at(startTime, 0),
		Work:             at(work, 0),
	}
	if feature.IsUnknown(r.KVCapacityTokens) {
		r.KVCapacityTokens = at(kvBlocks, 1) * r.BlockTokens
	}
	return r
}

// share bounds a used share that rounding took a little over 1. What is
// further above is in another unit, so it is unknown.
func share(v float64) float64 {
	if v > 1.01 {
		return math.NaN()
	}
	return min(v, 1)
}
