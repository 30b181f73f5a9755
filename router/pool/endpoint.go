package pool

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
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
	MetricsPort int      `yaml:"metrics_port"` // of its metrics page; that of URL when 0
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
	if err := checkPort("metrics_port", e.MetricsPort, true); err != nil {
		return e, err
	}
	for _, llm := range e.LLMs {
		if llm == "" {
			return e, errors.New("llms holds an empty name")
		}
	}
	return e, nil
}

// metricsURL is where the metrics page of a complete endpoint is.
func (e *Endpoint) metricsURL() string {
	if e.MetricsPort == 0 {
		return e.URL + e.MetricsPath
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return e.URL + e.MetricsPath // complete parsed it
	}
	u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(e.MetricsPort))
	return u.String() + e.MetricsPath
}

// checkPort reports a port that is none; some may be left out, as 0.
func checkPort(key string, port int, optional bool) error {
	if port < 0 || port > 65535 || port == 0 && !optional {
		return fmt.Errorf("%s %d is no port: want 1 to 65535", key, port)
	}
	return nil
}
