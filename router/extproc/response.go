package extproc

import (
	"net/http"
	"strconv"
	"time"

	"github.com/spillway-llm/spillway/router/route"
)

// hearHeaders hears a response's headers: who serves, and with what success.
func (s *stream) hearHeaders(now time.Time) error {
	by, err := served(s.in.metadata)
	if err != nil {
		return err
	}
	h := http.Header{}
	err = eachHeader(s.in.headers, func(key, value []byte) bool {
		switch string(key) {
		case ":status":
			s.status, _ = strconv.Atoi(string(value)) // 0 is judged as no success
		case "content-encoding":
			h.Set("Content-Encoding", string(value))
		case keyServed:
			if by == "" {
				by = route.Address(string(value))
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if s.ticket != nil {
		if by != "" && s.ticket.Served(by) {
			s.p.metrics.moved.Inc()
			s.dispatched = time.Time{} // when it was handed to this one, nobody says
		}
		if s.unseen {
			s.dispatched = time.Time{} // nor will it be known when the response ends
			s.answer.OpenUnheard(s.status)
		} else {
			s.answer.Open(s.status, h)
		}
	}
	pass := passResponseHeaders
	if s.p.config.Response == ResponseHeaders {
		pass = headersAlone
	}
	if err := s.grpc.SendMsg(pass); err != nil {
		return err
	}
	if s.in.end {
		s.finish(now)
	}
	return nil
}

// hearBody passes a piece of a response's body on, then listens to it. What
// comes after its end is of no interest.
func (s *stream) hearBody(now time.Time) error {
	if s.shown {
		return nil
	}
	for body, more := s.in.body, true; more; {
		n := min(len(body), longestPiece)
		more = n < len(body)
		s.out = piece{kind: responseBody, body: body[:n], end: s.in.end && !more}
		if err := s.grpc.SendMsg(&s.out); err != nil {
			return err
		}
		body = body[n:]
	}
	if s.ticket != nil && !s.ended {
		s.answer.Hear(s.in.body, now)
	}
	if s.in.end {
		s.finish(now)
	}
	return nil
}

// hearTrailers hears that a response has come to its end.
func (s *stream) hearTrailers(now time.Time) error {
	if s.shown {
		return nil
	}
	if err := s.grpc.SendMsg(passResponseTrailers); err != nil {
		return err
	}
	s.finish(now)
	return nil
}

// finish ends a request whose response was shown to its end.
func (s *stream) finish(now time.Time) {
	s.shown = true
	if s.ticket == nil || s.ended {
		return
	}
	s.answer.Finish(now)
	how, err := s.answer.Judge()
	s.p.metrics.answers.Heard(&s.answer, how)
	s.end(how, now, err)
}
