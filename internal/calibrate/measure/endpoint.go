package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/physics/fit"
	"github.com/spillway-llm/spillway/router/pool"
)

// Config says what to measure and how.
type Config struct {
	// URL is the engine's base, with or without /v1 behind it.
	URL string
	// LLM is what to ask for; empty: the only one that is served.
	LLM string
	// API is openai.Completions or openai.Chat.
	API openai.API
	// Key is sent as a bearer token; empty: none.
	Key string
	// MetricsPath is where the metrics are; empty: pool.DefaultMetricsPath.
	MetricsPath string
	// Force measures an engine that is busy or does not tell.
	Force bool
	// Seed makes the prompts: a seed used before may find them in a cache.
	Seed uint64
	// Timeout bounds one request.
	Timeout time.Duration
	// MaxTokens bounds the tokens of all prompts and answers together.
	MaxTokens int
	// Client sends the requests; its Timeout should be 0.
	Client *http.Client
	// Progress, when set, is told before each measurement how many tokens are done,
	// and what comes next. It must not block.
	Progress func(done int, next string)
}

// Endpoint is a live engine, ready to be measured.
type Endpoint struct {
	config Config
	base   string // without /v1
	used   int    // tokens so far, of prompts and answers
	// work is the engine's counter before the first request; countsTokens says
	// that it counts tokens, of which generated are ours.
	work         float64
	countsTokens bool
	generated    int
	// perByte and template are what the tokenizer makes of the prompts' text.
	perByte, template float64

	LLM    string
	Owner  string           // what /v1/models calls the engine: "vllm", "sglang"; may be empty
	Engine calibrate.Engine // what the endpoint tells about itself
}

const (
	maxPage     = 8 << 20  // bytes of a metrics page or a list of models
	maxAnswer   = 64 << 20 // bytes of an answer
	lookTimeout = 10 * time.Second
)

// Look asks an endpoint what it is. It is an error when it is not there, does
// not speak the OpenAI API or is busy.
func Look(ctx context.Context, c Config) (*Endpoint, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("url %q: want one such as http://10.0.0.1:8000", c.URL)
	}
	if c.API != openai.Chat && c.API != openai.Completions {
		return nil, fmt.Errorf("api %v: want chat or completions", c.API)
	}
	if c.MetricsPath == "" {
		c.MetricsPath = pool.DefaultMetricsPath
	}
	e := &Endpoint{config: c, base: strings.TrimSuffix(strings.TrimRight(c.URL, "/"), "/v1")}
	if err := e.models(ctx); err != nil {
		return nil, err
	}
	reading, err := e.metrics(ctx)
	if err != nil && !c.Force {
		return nil, fmt.Errorf("%w: %w", ErrUnwatched, err)
	}
	if err == nil {
		e.Engine.Limits, e.work = limits(reading), reading.Work
	}
	if !c.Force {
		if err := idle(reading, 0); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// limits is what a metrics page tells of the engine's configuration.
func limits(r pool.Reading) fit.Limits {
	whole := func(v float64) int {
		if feature.IsUnknown(v) {
			return 0
		}
		return int(v)
	}
	return fit.Limits{MaxNumSeqs: whole(r.MaxNumSeqs), KVCapacityTokens: whole(r.KVCapacityTokens), BlockTokens: whole(r.BlockTokens)}
}

// models finds the LLM and its context length.
func (e *Endpoint) models(ctx context.Context) error {
	const what = "GET /v1/models"
	body, status, err := e.fetch(ctx, "/v1/models")
	if err != nil {
		return failure(what, err)
	}
	if status != http.StatusOK {
		var m openai.Meter
		m.Write(body, time.Now())
		message, _ := m.Failure()
		err := refusal(what, status, message)
		if status == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", ErrAPI, err)
		}
		return err
	}
	var list struct {
		Data []struct {
			ID       string `json:"id"`
			Owner    string `json:"owned_by"`
			MaxModel int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Data) == 0 {
		return fmt.Errorf("%w: %s lists no models", ErrAPI, what)
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	at := slices.Index(names, e.config.LLM)
	if e.config.LLM == "" && len(names) == 1 {
		at = 0
	}
	if at < 0 {
		return fmt.Errorf("%w: it serves %s", ErrLLM, strings.Join(names, ", "))
	}
	e.LLM, e.Owner, e.Engine.MaxModelTokens = names[at], list.Data[at].Owner, max(0, list.Data[at].MaxModel)
	return nil
}

// metrics reads the metrics page.
func (e *Endpoint) metrics(ctx context.Context) (pool.Reading, error) {
	what := "GET " + e.config.MetricsPath
	page, status, err := e.fetch(ctx, e.config.MetricsPath)
	if err != nil {
		return pool.Reading{}, failure(what, err)
	}
	if status != http.StatusOK {
		return pool.Reading{}, refusal(what, status, "")
	}
	return pool.Read(page), nil
}

// fetch gets a page of bounded size.
func (e *Endpoint) fetch(ctx context.Context, path string) (body []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return nil, 0, err
	}
	e.authorize(req)
	resp, err := e.config.Client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	var page bytes.Buffer
	n, err := io.Copy(&page, io.LimitReader(resp.Body, maxPage+1))
	if err == nil && n > maxPage {
		err = fmt.Errorf("the page is longer than %d bytes", maxPage)
	}
	return page.Bytes(), resp.StatusCode, err
}

func (e *Endpoint) authorize(req *http.Request) {
	if e.config.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.config.Key)
	}
}
