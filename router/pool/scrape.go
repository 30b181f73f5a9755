package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	maxPage       = 4 << 20 // bytes of one metrics page
	maxModels     = 1 << 20 // bytes of one /v1/models answer
	modelsRefresh = time.Minute
)

// scraper asks one endpoint again and again, in one buffer.
type scraper struct {
	pool   *Pool
	member *member
	page   []byte
}

// Why a scrape failed: the values of the metric's label reason.
const (
	noConnection = "connection"
	timedOut     = "timeout"
	badStatus    = "status"
	tooLarge     = "too_large"
)

// scrapeError is a scrape that gave no page. answered says that the endpoint
// is alive nevertheless.
type scrapeError struct {
	reason   string
	answered bool
	err      error
}

func (e *scrapeError) Error() string { return e.err.Error() }

// scrape asks once and reports whether the endpoint is alive.
func (s *scraper) scrape(ctx context.Context) (alive bool) {
	p, m := s.pool, s.member
	asked := p.now()
	failure := s.fetch(ctx)
	if ctx.Err() != nil {
		return false // stopped: says nothing of the endpoint
	}
	p.metrics.duration.Observe(p.now().Sub(asked).Seconds())
	alive = failure == nil || failure.answered
	if failure == nil {
		p.arrived(m, Read(s.page), asked)
	} else {
		p.metrics.failures.WithLabelValues(failure.reason).Inc()
		p.failed(m, failure)
	}
	if alive && p.modelsDue(m) {
		if llms, err := s.models(ctx); err == nil {
			p.learnLLMs(m, llms)
		} else if ctx.Err() == nil {
			p.noModels(m, err)
		}
	}
	return alive
}

// fetch reads the metrics page into s.page.
func (s *scraper) fetch(ctx context.Context) *scrapeError {
	ctx, cancel := context.WithTimeout(ctx, s.pool.config.Timeout)
	defer cancel()
	e := s.pool.endpointOf(s.member)
	response, err := s.get(ctx, e.metricsURL(), "text/plain;version=0.0.4")
	if err != nil {
		return transportError(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &scrapeError{badStatus, response.StatusCode < 500,
			fmt.Errorf("GET %s: status %d", e.MetricsPath, response.StatusCode)}
	}
	s.page, err = readInto(s.page, response.Body, maxPage)
	switch {
	case errors.Is(err, errTooLarge):
		return &scrapeError{tooLarge, true, fmt.Errorf("GET %s: the page is over %d MiB", e.MetricsPath, maxPage>>20)}
	case err != nil:
		return transportError(ctx, err)
	}
	return nil
}

func (s *scraper) get(ctx context.Context, url, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("User-Agent", "spillway")
	return s.pool.client.Do(request)
}

func transportError(ctx context.Context, err error) *scrapeError {
	if ctx.Err() != nil {
		return &scrapeError{timedOut, false, err}
	}
	return &scrapeError{noConnection, false, err}
}

var errTooLarge = errors.New("too large")

// readInto reads r to its end into buffer, which it grows up to limit.
func readInto(buffer []byte, r io.Reader, limit int) ([]byte, error) {
	buffer = buffer[:0]
	for {
		if len(buffer) == cap(buffer) {
			buffer = append(buffer, make([]byte, max(4096, len(buffer)))...)[:len(buffer)]
		}
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case len(buffer) > limit:
			return buffer[:0], errTooLarge
		case err == io.EOF:
			return buffer, nil
		case err != nil:
			return buffer[:0], err
		}
	}
}

// models asks which LLMs the endpoint serves.
func (s *scraper) models(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.pool.config.Timeout)
	defer cancel()
	response, err := s.get(ctx, s.pool.endpointOf(s.member).URL+"/v1/models", "application/json")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	body, err := readInto(nil, response.Body, maxModels)
	if err != nil {
		return nil, err
	}
	return parseModels(body)
}

// parseModels reads the ids of an OpenAI model list.
func parseModels(body []byte) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, errors.New("the answer is not a model list")
	}
	var llms []string
	for _, model := range list.Data {
		if model.ID != "" {
			llms = append(llms, model.ID)
		}
	}
	if len(llms) == 0 {
		return nil, errors.New("the answer names no model")
	}
	return sorted(llms), nil
}

// endpointOf reads the configuration of m, which a change of the file may
// replace.
func (p *Pool) endpointOf(m *member) Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.endpoint
}

// arrived takes a reading into the pool.
func (p *Pool) arrived(m *member, r Reading, asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.endpoint.ID] != m {
		return // it left while it was asked
	}
	if why := m.life.learn(r); why != "" {
		p.restart(m, why)
	}
	m.state.Waiting, m.state.Running, m.state.KVUsed = r.Waiting, r.Running, r.KVUsed
	m.state.ScrapedAt, m.state.Started = asked, m.life.startTime
	m.state.KVCapacityTokens, m.state.BlockTokens, m.state.MaxNumSeqs = r.KVCapacityTokens, r.BlockTokens, r.MaxNumSeqs
	missing := r.Missing()
	for _, name := range missing {
		p.metrics.missing.WithLabelValues(name).Inc()
	}
	if names := strings.Join(missing, ", "); names != m.alarmed {
		m.alarmed = names
		if names != "" {
			p.log.Warn("endpoint's metrics page lacks numbers that routing uses", "endpoint", m.state.ID, "missing", names)
		}
	}
	p.answer(m)
	p.publish()
}

// failed takes a scrape without a page into the pool. The numbers stay and
// grow old.
func (p *Pool) failed(m *member, failure *scrapeError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.endpoint.ID] != m {
		return
	}
	if failure.answered {
		if m.alarmed != failure.reason {
			m.alarmed = failure.reason
			p.log.Warn("endpoint is up but gives no metrics", "endpoint", m.state.ID, "error", failure)
		}
		p.answer(m)
		return
	}
	m.late = m.late || !m.health.answered
	m.health.scrapes.fail(p.config.FailAfter)
	m.health.retry(p.now(), p.config.TrafficHold, p.config.FailAfter)
	p.judge(m, failure.Error())
}

// answer counts a sign of life.
func (p *Pool) answer(m *member) {
	if !m.health.answered {
		m.health.answered = true
		m.health.scrapes = streak{}
		if m.late {
			m.state.Since = p.now()
		}
	}
	m.health.scrapes.succeed(p.config.RecoverAfter)
	m.health.retry(p.now(), p.config.TrafficHold, p.config.FailAfter)
	p.judge(m, "it answers")
}

// restart begins another life of m: an engine that has nothing of what the
// former one had.
func (p *Pool) restart(m *member, why string) {
	p.lives++
	m.life.incarnation = p.lives
	m.state.Incarnation = p.lives
	m.state.Since = p.now()
	m.health = health{answered: true}
	m.modelsAt = time.Time{}
	p.metrics.restarts.Inc()
	p.log.Info("endpoint restarted", "endpoint", m.state.ID, "why", why, "incarnation", p.lives)
}

// modelsDue reports whether the LLMs of m must be asked for: at every scrape
// while they are unknown, then once a minute. Configured ones never.
func (p *Pool) modelsDue(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(m.endpoint.LLMs) == 0 && (len(m.state.LLMs) == 0 || p.now().Sub(m.modelsAt) >= modelsRefresh)
}

func (p *Pool) learnLLMs(m *member, llms []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.endpoint.ID] != m || len(m.endpoint.LLMs) > 0 {
		return
	}
	m.modelsAt, m.alarmedModels = p.now(), false
	if strings.Join(llms, "\n") == strings.Join(m.state.LLMs, "\n") {
		return
	}
	m.state.LLMs = llms
	p.log.Info("endpoint serves", "endpoint", m.state.ID, "llms", llms)
	p.publish()
}

// noModels logs, once until it changes, that an endpoint does not say what it
// serves. What it said before stands.
func (p *Pool) noModels(m *member, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.endpoint.ID] == m && !m.alarmedModels {
		m.alarmedModels = true
		p.log.Warn("endpoint does not say which LLMs it serves: list them under its key llms", "endpoint", m.endpoint.ID, "error", err)
	}
}
