package pool

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Endpoint is one engine address as it is configured.
type Endpoint struct {
	ID          string   `yaml:"id"`           // unique; host:port of URL when empty
	URL         string   `yaml:"url"`          // http or https, without the /v1
	Class       string   `yaml:"class"`        // accelerator, engine and flags; endpoints of one class behave alike
	Profile     string   `yaml:"profile"`      // name of an engine profile, or empty
	LLMs        []string `yaml:"llms"`         // what it serves; asked of it (GET /v1/models) when empty
	MetricsPath string   `yaml:"metrics_path"` // /metrics when empty; trtllm-serve has /prometheus/metrics
	Draining    bool     `yaml:"draining"`     // keep what it has, send nothing new
}

// DefaultMetricsPath is where vLLM and SGLang serve their metrics.
const DefaultMetricsPath = "/metrics"

// complete fills in what may be left out and reports what makes e unusable.
func (e Endpoint) complete() (Endpoint, error) {
	if e.URL == "" {
		return e, errors.New("url is missing: want one such as http://10.0.0.1:8000")
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil:
		return e, fmt.Errorf("url %q cannot be read: want one such as http://10.0.0.1:8000", e.URL)
	case u.Scheme != "http" && u.Scheme != "https":
		return e, fmt.Errorf("url %q does not begin with http:// or https://", e.URL)
	case u.Hostname() == "":
		return e, fmt.Errorf("url %q names no host", e.URL)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return e, fmt.Errorf("url %q has more than scheme, host, port and path", e.URL)
	}
	e.URL = strings.TrimRight(e.URL, "/")
	if strings.HasSuffix(e.URL, "/v1") {
		return e, fmt.Errorf("url %q ends with /v1: leave it out", e.URL)
	}
	if e.ID == "" {
		e.ID = u.Host
		if u.Port() == "" {
			e.ID += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
		}
	}
	if e.MetricsPath == "" {
		e.MetricsPath = DefaultMetricsPath
	}
	if !strings.HasPrefix(e.MetricsPath, "/") {
		return e, fmt.Errorf("metrics_path %q does not begin with /", e.MetricsPath)
	}
	for _, llm := range e.LLMs {
		if llm == "" {
			return e, errors.New("llms holds an empty name")
		}
	}
	return e, nil
}
