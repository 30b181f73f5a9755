package measured_test

import (
	"bytes"
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
)

// Whatever the bytes, a row that is yielded can be fitted: its numbers are
// finite, in range and in order.
func FuzzRows(f *testing.F) {
	f.Add([]byte(siliconHeader + "a,\"silicon_concurrency=32\",vllm,0.12.0,m,g,,agg,1024,128,1,2,,1,250.5,29.38\n"))
	f.Add([]byte("model,hardware,prompt_size,batch_size,token_size,prompt_time,token_time,tensor_parallel\nm,g,512,4,128,196.25,54.88,2\n"))
	f.Add([]byte("t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n1.0,3392.0,2.0,5,2,13.22\n"))
	f.Add([]byte(`{"kv_cache_percentage": 0.25, "input_token_length": 6545, "num_request_waiting": 1, "num_request_running": 3, "actual_ttft_ms": 1738, "actual_tpot_ms": 0, "prefill_tokens_in_flight": 10176}`))
	f.Add([]byte(`{"request_id": "a", "input_toks": 4, "output_toks": 7, "arrival_time": 1, "queued_ts": 10, "scheduled_ts": 10.5, "first_token_ts": 11, "last_token_ts": 14}`))
	f.Add([]byte(`{"engine_kwargs": {"max_num_seqs": 128}, "kv_cache": {"num_kv_tokens": 41408}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for row, err := range measured.Silicon(bytes.NewReader(text)) {
			if err == nil && !(row.TTFT > 0 && row.TPOT > 0 && row.PromptTokens >= 1 && row.OutputTokens >= 2 && row.Concurrency >= 1) {
				t.Errorf("silicon yields %+v", row)
			}
		}
		for row, err := range measured.Splitwise(bytes.NewReader(text)) {
			if err == nil && !(row.Prefill > 0 && row.Step > 0 && row.PromptTokens >= 1 && row.Sequences >= 1 && row.Deployment.TensorParallel >= 1) {
				t.Errorf("splitwise yields %+v", row)
			}
		}
		for row, err := range measured.LatencyPredictor(bytes.NewReader(text)) {
			if err == nil && !(row.PromptTokens >= 1 && row.InFlight >= 0 && (row.TTFT > 0 || feature.IsUnknown(row.TTFT)) && (row.TPOT > 0 || feature.IsUnknown(row.TPOT))) {
				t.Errorf("latency predictor yields %+v", row)
			}
		}
		for row, err := range measured.ServingSim(bytes.NewReader(text)) {
			if err == nil && !(row.Wait() >= 0 && row.Prefill() >= 0 && row.Decode() >= 0 && row.PromptTokens >= 1 && row.OutputTokens >= 1) {
				t.Errorf("serving sim yields %+v", row)
			}
		}
		for row, err := range measured.ServingSimTicks(bytes.NewReader(text)) {
			if err == nil && !(row.At >= 0 && row.Running >= 0 && row.KVUsed >= 0 && row.KVUsed <= 1) {
				t.Errorf("ticks yield %+v", row)
			}
		}
		if e, err := measured.ServingSimEngine(bytes.NewReader(text)); err == nil && (e.MaxNumSeqs < 0 || e.KVCapacityTokens < 0) {
			t.Errorf("engine is %+v", e)
		}
	})
}
