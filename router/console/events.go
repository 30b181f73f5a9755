package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

const (
	eventInterval = time.Second
	mostStreams   = 32               // of events; each costs a drawing of the page a second
	writeTimeout  = 10 * time.Second // for a reader that does not read
)

// serveEvents sends what changes on the page for as long as somebody looks:
// each section whose HTML is another than was sent last, the charts' numbers
// when a period began, and once a second the time, so that silence shows.
func (s *Console) serveEvents(w http.ResponseWriter, r *http.Request) {
	if s.streams.Add(1) > mostStreams {
		s.streams.Add(-1)
		http.Error(w, fmt.Sprintf("%d consoles are open, and no more are served", mostStreams), http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	out := stream{w: w, control: http.NewResponseController(w), sent: map[string][]byte{}}
	second := time.NewTicker(eventInterval)
	defer second.Stop()
	llm := r.URL.Query().Get("llm")
	for {
		if err := s.sendNews(&out, llm, time.Now()); err != nil {
			return // who listened is gone
		}
		select {
		case <-r.Context().Done():
			return
		case <-second.C:
		}
	}
}

func (s *Console) sendNews(out *stream, llm string, now time.Time) error {
	v := s.look(llm, now)
	for _, name := range sections {
		body, err := render(name, v)
		if err != nil {
			return err
		}
		out.news("section", body, name)
	}
	if began := now.Truncate(route.PeriodLength); !began.Equal(out.charted) {
		out.charted = began
		body, err := json.Marshal(chart(s.config.History(v.Shown), now))
		if err != nil {
			return err
		}
		out.news("charts", body, "charts")
	}
	out.event("time", []byte(now.UTC().Format(time.RFC3339)))
	return out.flush()
}

// stream writes events and remembers what it sent.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	pending bytes.Buffer
	sent    map[string][]byte
	charted time.Time
}

// news adds an event unless what was last sent of that name is the same.
func (s *stream) news(event string, body []byte, name string) {
	if bytes.Equal(s.sent[name], body) {
		return
	}
	s.sent[name] = body
	s.event(event, body)
}

func (s *stream) event(name string, body []byte) {
	fmt.Fprintf(&s.pending, "event: %s\n", name)
	for line := range bytes.Lines(body) {
		s.pending.WriteString("data: ")
		s.pending.Write(bytes.TrimRight(line, "\r\n"))
		s.pending.WriteByte('\n')
	}
	s.pending.WriteByte('\n')
}

func (s *stream) flush() error {
	// Not every ResponseWriter has deadlines; a server's does.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	defer s.pending.Reset()
	if _, err := s.w.Write(s.pending.Bytes()); err != nil {
		return err
	}
	return s.control.Flush()
}

// charts are the numbers that the charts draw, side by side, one of each for
// every period from the first in which something happened, the last of which
// is not over. Rates are per second, but for spilled, which is per minute.
type charts struct {
	Began        []int64           `json:"began"` // Unix seconds
	Forecasts    []float64         `json:"forecasts"`
	Fallback     []float64         `json:"fallback"`
	Shed         []float64         `json:"shed"`
	Spilled      []float64         `json:"spilled"`
	TTFTForecast []feature.Seconds `json:"ttft_forecast"`
	TTFTActual   []feature.Seconds `json:"ttft_actual"`
	TPOTForecast []feature.Seconds `json:"tpot_forecast"`
	TPOTActual   []feature.Seconds `json:"tpot_actual"`
	TTFTCoverage []feature.Number  `json:"ttft_coverage"`
	TPOTCoverage []feature.Number  `json:"tpot_coverage"`
}

// chart lays periods side by side, with those between in which nothing
// happened. The present one is left out: its rates would be too low.
func chart(periods []route.Period, now time.Time) charts {
	var c charts
	if len(periods) == 0 {
		return c
	}
	const length = float64(route.PeriodLength / time.Second)
	last := now.Truncate(route.PeriodLength)
	for at := periods[0].Began; at.Before(last); at = at.Add(route.PeriodLength) {
		p := route.Period{Began: at}
		if len(periods) > 0 && periods[0].Began.Equal(at) {
			p, periods = periods[0], periods[1:]
		}
		c.Began = append(c.Began, at.Unix())
		c.Forecasts = append(c.Forecasts, float64(p.Forecasts)/length)
		c.Fallback = append(c.Fallback, float64(p.Decisions-p.Forecasts)/length)
		c.Shed = append(c.Shed, float64(p.Shed)/length)
		c.Spilled = append(c.Spilled, float64(p.Spilled)*60/length)
		c.TTFTForecast = append(c.TTFTForecast, p.TTFT.Forecast())
		c.TTFTActual = append(c.TTFTActual, p.TTFT.Actual())
		c.TPOTForecast = append(c.TPOTForecast, p.TPOT.Forecast())
		c.TPOTActual = append(c.TPOTActual, p.TPOT.Actual())
		c.TTFTCoverage = append(c.TTFTCoverage, p.TTFT.Coverage())
		c.TPOTCoverage = append(c.TPOTCoverage, p.TPOT.Coverage())
	}
	return c
}
