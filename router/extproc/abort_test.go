package extproc_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// Whatever a proxy does to its streams, side by side, abort them at any point,
// send parts twice, out of order or to the wrong endpoint, every request that
// was decided is settled once and the ledger returns to zero.
func TestEveryStreamSettlesOnce(t *testing.T) {
	w := newWorld(t, 3, nil)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "streams")
		seed := rapid.Uint64().Draw(rt, "seed")
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { w.abuse(t, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
		all.Wait()
		w.quiet(t)
		w.idle(t)
		w.mu.Lock()
		defer w.mu.Unlock()
		outcomes := map[feature.ID]int{}
		for _, o := range w.outcomes {
			outcomes[o.Decision]++
		}
		for _, d := range w.decisions {
			if outcomes[d.ID] != 1 {
				t.Errorf("decision %v has %d outcomes", d.ID, outcomes[d.ID])
			}
		}
	})
	if len(w.decisions) < 50 {
		t.Errorf("only %d requests were decided", len(w.decisions))
	}
}

// abuse plays one request and spoils it.
func (w *world) abuse(t *testing.T, rng *rand.Rand) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := w.proxy.Open(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	request := extproctest.Post(chat, []byte(streaming))
	request.Cuts, request.Trailers = extproctest.Cuts(rng, len(streaming), 1+rng.IntN(len(streaming))), rng.IntN(4) == 0
	response := events(answer, extproctest.Cuts(rng, len(answer), 1+rng.IntN(len(answer)))...)
	response.Trailers = rng.IntN(4) == 0
	if rng.IntN(3) == 0 {
		response.Served, response.ServedInHeader = address(rng.IntN(4)), rng.IntN(2) == 0
	}
	if rng.IntN(5) == 0 {
		response.Status = 503
	}
	messages := append(request.Messages(), response.Messages()...)
	switch rng.IntN(4) {
	case 0: // parts are lost
		i := rng.IntN(len(messages))
		messages = append(messages[:i:i], messages[i+1+rng.IntN(len(messages)-i):]...)
	case 1: // two parts change places
		i, j := rng.IntN(len(messages)), rng.IntN(len(messages))
		messages[i], messages[j] = messages[j], messages[i]
	case 2: // a part comes again
		i := rng.IntN(len(messages))
		messages = append(messages, messages[i])
	}
	stop := len(messages)
	if rng.IntN(2) == 0 {
		stop = rng.IntN(len(messages) + 1)
	}
	for _, m := range messages[:stop] {
		if s.Send(m) != nil {
			break
		}
	}
	if rng.IntN(2) == 0 {
		return // aborts
	}
	if s.CloseSend() != nil {
		return
	}
	for {
		if _, err := s.Recv(); err != nil {
			return
		}
	}
}

// quiet waits until no stream is open at the picker and every decision has an
// outcome.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	ctx := within(t)
	for w.count(t, "spillway_router_extproc_streams") > 0 || w.owing() {
		select {
		case <-ctx.Done():
			t.Fatal("streams stay open")
		case <-time.After(time.Millisecond):
		}
	}
}

// owing reports whether the outcome of a decision is still to come.
func (w *world) owing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.decisions) != len(w.outcomes)
}

// An abort is settled as what it is, wherever it comes.
func TestAborts(t *testing.T) {
	request := extproctest.Post(chat, []byte(streaming))
	request.Cuts = []int{10, 20}
	response := events(answer, len(token), len(token), len(token), len(last), len(usage), len(done))
	messages := append(request.Messages(), response.Messages()...)
	decided := len(request.Messages())
	for at := decided; at < len(messages); at++ {
		t.Run(fmt.Sprint(at-decided), func(t *testing.T) {
			w := newWorld(t, 2, nil)
			s, _ := w.pick(t, request)
			for i, m := range messages[decided:at] {
				if err := s.Send(m); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Recv(); err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			s.Abort()
			o := w.outcome(t)
			code, first := 499, at-decided >= 2
			if at > decided {
				code = 200
			}
			if o.Status != feature.ClientAbort || o.HTTPStatus != code || first == feature.IsUnknown(o.TTFT) || first != feature.IsUnknown(o.CensoredAt) {
				t.Errorf("outcome %+v", o)
			}
			w.quiet(t)
			w.idle(t)
			if w.pool.failures > 0 {
				t.Error("the endpoint is blamed")
			}
		})
	}
}

// A stream whose response said that it was whole is no abort, though the proxy
// ended it before saying so.
func TestACompleteResponseIsNoAbort(t *testing.T) {
	w := newWorld(t, 2, nil)
	s, _ := w.pick(t, extproctest.Post(chat, []byte(streaming)))
	response := events(answer)
	for _, m := range append(response.Messages()[:1], extproctest.Chunk([]byte(answer), false)) {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	s.Abort()
	if o := w.outcome(t); o.Status != feature.OK || o.OutputTokens != 3 {
		t.Errorf("outcome %+v", o)
	}
}

// A proxy that breaks the protocol is told so.
func TestDisorder(t *testing.T) {
	request := extproctest.Post(chat, []byte(streaming))
	response := events(answer)
	response.Trailers = true
	headers, body := request.Messages()[0], request.Messages()[1]
	request.Trailers = true
	trailers := request.Messages()[2]
	began, chunk, ended := response.Messages()[0], response.Messages()[1], response.Messages()[2]
	observing := extproctest.Observing(request)
	for _, c := range []struct {
		name string
		send []*extproctest.Message
		last bool // the fault is the last one's alone: those before are answered
	}{
		{"a body without headers", []*extproctest.Message{body}, true},
		{"trailers without headers", []*extproctest.Message{trailers}, true},
		{"headers twice", []*extproctest.Message{headers, headers}, true},
		{"headers after the decision", []*extproctest.Message{headers, body, headers}, false},
		{"a response body without headers", []*extproctest.Message{headers, body, chunk}, false},
		{"response trailers without headers", []*extproctest.Message{ended}, true},
		{"response headers twice", []*extproctest.Message{headers, body, began, began}, false},
		{"request headers after the response's", []*extproctest.Message{began, headers}, false},
		{"nobody to answer", []*extproctest.Message{observing}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			s := w.open(t)
			for _, m := range c.send {
				if err := s.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			for err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("ended with %v", err)
			}
			w.quiet(t)
			w.idle(t)
			if n := w.count(t, "spillway_router_extproc_protocol_errors_total"); n != 1 {
				t.Errorf("%v breaches are counted", n)
			}
		})
	}
}
