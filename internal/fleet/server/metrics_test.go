package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/spillway-llm/spillway/internal/fleet/server"
)

// sample is one metric of a page.
type sample struct {
	labels map[string]string
	value  float64 // of a histogram: the sum
	count  uint64  // of a histogram
}

// scrape returns the metrics page as an independent parser reads it.
func scrape(t *testing.T, url string) map[string][]sample {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	page := map[string][]sample{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			s := sample{
				labels: map[string]string{},
				value:  m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum(),
				count:  m.GetHistogram().GetSampleCount(),
			}
			for _, l := range m.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			page[name] = append(page[name], s)
		}
	}
	return page
}

// one is the only sample of a metric.
func one(t *testing.T, page map[string][]sample, name string) sample {
	t.Helper()
	if len(page[name]) != 1 {
		t.Fatalf("%s has %d samples, want 1", name, len(page[name]))
	}
	return page[name][0]
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
		got := one(t, page, name)
		if got.value != want || got.labels["engine"] != "0" || got.labels["model_name"] != "m" {
			t.Errorf("%s is %v %v, want %v", name, got.labels, got.value, want)
		}
	}
	for name, want := range map[string]uint64{
		"vllm:time_to_first_token_seconds":   2,
		"vllm:inter_token_latency_seconds":   8,
		"vllm:time_per_output_token_seconds": 8,
		"vllm:e2e_request_latency_seconds":   2,
	} {
		if got := one(t, page, name).count; got != want {
			t.Errorf("%s has %d samples, want %d", name, got, want)
		}
	}
	config := map[string]string{"engine": "0", "model_name": "m", "block_size": "16", "num_gpu_blocks": "65536", "enable_prefix_caching": "True"}
	if diff := cmp.Diff(config, one(t, page, "vllm:cache_config_info").labels); diff != "" {
		t.Error(diff)
	}
	ends := map[string]float64{}
	for _, s := range page["vllm:request_success_total"] {
		ends[s.labels["finished_reason"]] = s.value
	}
	if diff := cmp.Diff(map[string]float64{"stop": 0, "length": 2, "abort": 0}, ends); diff != "" {
		t.Error(diff)
	}
}
