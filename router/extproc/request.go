package extproc

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// Headers as HTTP/2 spells them.
var (
	headerReason   = strings.ToLower(front.HeaderReason)
	headerDecision = strings.ToLower(front.HeaderDecision)
)

// firstAlloc is the most that is allocated on a client's word about the length
// of its body.
const firstAlloc = 1 << 20

// takeHeaders takes in a request's headers. Where no body follows, that is all
// there is to decide from.
func (s *stream) takeHeaders() error {
	s.unseen = s.p.config.Response == ResponseHeaders
	if m := s.in.modes; m.told {
		if m.request != modeNone && m.request != modeFullDuplex {
			s.p.odd.Do(func() {
				s.p.log.Error("a proxy sends request bodies in a mode in which no endpoint can be picked; want request_body_mode FULL_DUPLEX_STREAMED in its configuration", "mode", m.request)
			})
			return front.Refuse(http.StatusInternalServerError, reasonMode, "the gateway's request_body_mode must be FULL_DUPLEX_STREAMED")
		}
		s.unseen = s.unseen || m.response != modeFullDuplex
	}
	err := eachHeader(s.in.headers, func(key, value []byte) bool {
		switch {
		case string(key) == ":method":
			s.asked.Method = methodOf(value)
		case string(key) == ":path":
			path, _, _ := bytes.Cut(value, []byte{'?'})
			s.asked.Path = string(path)
		case string(key) == "content-length":
			if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
				s.length = n
			}
		case asks(key), s.p.config.Tracer != nil && traces(key):
			if s.asked.Header == nil {
				s.asked.Header = http.Header{}
			}
			s.asked.Header.Add(string(key), string(value))
		}
		return true
	})
	if err != nil {
		return err
	}
	s.ctx, s.span = s.p.config.Tracer.Join(s.ctx, "request", s.asked.Header)
	if s.within, err = subset(s.in.metadata); err != nil {
		return err
	}
	hidden := s.in.modes.told && s.in.modes.request == modeNone
	if s.in.end || hidden {
		s.whole, s.asked.Hidden = true, hidden && !s.in.end
		return s.decide()
	}
	if int64(s.length) > s.p.config.MaxBody {
		return front.TooLarge(s.p.config.MaxBody)
	}
	return nil
}

// methodOf is a method as a string, without allocation for those there are.
func methodOf(b []byte) string {
	switch string(b) {
	case http.MethodPost:
		return http.MethodPost
	case http.MethodGet:
		return http.MethodGet
	}
	return string(b)
}

// asks reports whether a header may say something about what is asked for:
// Content-Encoding, and the many of an x, but for those that proxies add
// themselves.
func asks(key []byte) bool {
	if string(key) == "content-encoding" {
		return true
	}
	return bytes.HasPrefix(key, []byte("x-")) && !bytes.HasPrefix(key, []byte("x-envoy-")) && !bytes.HasPrefix(key, []byte("x-forwarded-")) &&
		string(key) != "x-request-id"
}

// traces reports whether a header names the span that a request belongs to.
func traces(key []byte) bool { return string(key) == "traceparent" || string(key) == "tracestate" }

// takeBody takes in a piece of a request's body. What comes after its end is
// of no interest.
func (s *stream) takeBody() error {
	if s.whole {
		return nil
	}
	have, more := len(s.asked.Body), len(s.in.body)
	if int64(have)+int64(more) > s.p.config.MaxBody {
		return front.TooLarge(s.p.config.MaxBody)
	}
	if err := s.p.room.Take(more); err != nil {
		return err
	}
	s.taken += more
	if s.asked.Body == nil {
		s.asked.Body = make([]byte, 0, max(more, min(s.length, firstAlloc)))
	}
	s.asked.Body = append(s.asked.Body, s.in.body...)
	if !s.in.end {
		return nil
	}
	s.whole = true
	if err := s.decide(); err != nil {
		return err
	}
	return s.handOver(true)
}

// takeTrailers takes in a request's trailers: its body, if it had one, has
// come to its end.
func (s *stream) takeTrailers() error {
	if s.whole {
		return nil
	}
	s.whole = true
	if err := s.decide(); err != nil {
		return err
	}
	if err := s.handOver(false); err != nil {
		return err
	}
	return s.grpc.SendMsg(passRequestTrailers)
}

// decide asks route where the request goes, and tells the proxy.
func (s *stream) decide() error {
	began := time.Now()
	scanned := s.p.scanned.Get().(*openai.Request)
	defer s.p.scanned.Put(scanned)
	var q route.Query
	if err := s.asked.Read(&q, scanned); err != nil {
		return err
	}
	q.Within = s.within
	s.streaming = q.Streaming
	q.Streaming = q.Streaming && !s.unseen // its first token will not be seen
	s.p.metrics.body.Observe(float64(len(s.asked.Body)))
	t, err := s.p.router.Begin(s.ctx, &q)
	s.p.metrics.decide.Observe(time.Since(began).Seconds())
	if err != nil {
		return front.Undecided(err)
	}
	s.ticket = t
	s.answer = front.Answer{Ticket: t, API: scanned.API, Many: scanned.N > 1}
	destinations := t.Address()
	for _, address := range t.Fallbacks(s.p.config.Destinations - 1) {
		destinations += "," + address
	}
	s.dispatched = began
	t.Sent(began)
	return s.grpc.SendMsg(goTo(destinations))
}

// handOver gives the body back, as it came. With last, nothing follows it.
func (s *stream) handOver(last bool) error {
	body := s.asked.Body
	s.asked.Body = nil // what is on its way is held by whoever sends it
	for first := true; len(body) > 0 || first && last; first = false {
		n := min(len(body), longestPiece)
		s.out = piece{kind: requestBody, body: body[:n], end: last && n == len(body), stable: true}
		if err := s.grpc.SendMsg(&s.out); err != nil {
			return err
		}
		body = body[n:]
	}
	s.leaveRoom()
	s.dispatched = time.Now()
	s.ticket.Sent(s.dispatched)
	return nil
}

// leaveRoom gives back the room of the body.
func (s *stream) leaveRoom() {
	s.p.room.Give(s.taken)
	s.taken = 0
}
