package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/spillway-llm/spillway/internal/fleet/server"
)

// scrape returns the metrics page as an independent parser reads it.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p := expfmt.NewTextParser(model.LegacyValidation)
	got, err := p.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func value(t *testing.T, page map[string]*dto.MetricFamily, name string) float64 {
	t.Helper()
	f := page[name]
	if f == nil {
		t.Fatalf("no metric %s", name)
	}
	m := f.GetMetric()[0]
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
}

func TestMetrics(t *testing.T) {
	url := serve(t, server.Config{}).URLs()[0]
	for range 2 {
		post(t, url+"/v1/completions", object{"model": "m", "prompt": strings.Repeat("x", 4*64), "max_tokens": 5, "ignore_eos": true})
	}
	page := scrape(t, url)
	for name, want := range map[string]float64{
		"vllm:num_requests_running":       0,
		"vllm:num_requests_waiting":       0,
		"vllm:kv_cache_usage_perc":        0,
		"vllm:cache_config_info":          1,
		"vllm:prefix_cache_queries_total": 128,
		"vllm:prefix_cache_hits_total":    48,
		"vllm:prompt_tokens_total":        128,
		"vllm:generation_tokens_total":    10,
		"vllm:num_preemptions_total":      0,
	} {
		if got := value(t, page, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]uint64{
		"vllm:time_to_first_token_seconds":   2,
		"vllm:inter_token_latency_seconds":   8,
		"vllm:time_per_output_token_seconds": 8,
		"vllm:e2e_request_latency_seconds":   2,
	} {
		if got := page[name].GetMetric()[0].GetHistogram().GetSampleCount(); got != want {
			t.Errorf("%s has %d samples, want %d", name, got, want)
		}
	}
	labels := func(name string, i int) object {
		got := object{}
		for _, l := range page[name].GetMetric()[i].GetLabel() {
			got[l.GetName()] = l.GetValue()
		}
		return got
	}
	config := object{"engine": "0", "model_name": "m", "block_size": "16", "num_gpu_blocks": "65536", "enable_prefix_caching": "True"}
	if diff := cmp.Diff(config, labels("vllm:cache_config_info", 0)); diff != "" {
		t.Error(diff)
	}
	ends := map[string]float64{}
	for i, m := range page["vllm:request_success_total"].GetMetric() {
		ends[labels("vllm:request_success_total", i)["finished_reason"].(string)] = m.GetCounter().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"stop": 0, "length": 2, "abort": 0}, ends); diff != "" {
		t.Error(diff)
	}
}
