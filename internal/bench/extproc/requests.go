package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

const (
	bytesPerToken = 4
	prefixes      = 64       // that prompts share
	pieceBytes    = 16 << 10 // of a request's body, as a proxy shows it
)

// traffic makes requests with prompts of so many tokens.
type traffic struct {
	prefixes []string
	rest     int // bytes of a prompt that it shares with none
}

func newTraffic(rng *rand.Rand, tokens int) *traffic {
	size := tokens * bytesPerToken
	t := &traffic{}
	t.rest = size - int(shared*float64(size))
	for range prefixes {
		t.prefixes = append(t.prefixes, words(rng, size-t.rest))
	}
	return t
}

// words draws text of so many bytes.
func words(rng *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		for range 2 + rng.IntN(8) {
			b.WriteByte(byte('a' + rng.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()[:size]
}

// request draws one, encoded as a proxy sends it. Words need no escapes, and to
// look for some would take longer than the router takes.
func (t *traffic) request(rng *rand.Rand) [][]byte {
	body := fmt.Appendf(nil, `{"model":"%s","stream":true,"max_tokens":256,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`,
		llm, t.prefixes[rng.IntN(prefixes)], words(rng, t.rest))
	r := extproctest.Post("/v1/chat/completions", body)
	for left := len(body); left > 0; left -= pieceBytes {
		r.Cuts = append(r.Cuts, min(left, pieceBytes))
	}
	return encode(r.Messages())
}

func encode(messages []*extproctest.Message) [][]byte {
	var all [][]byte
	for _, m := range messages {
		b, err := proto.Marshal(m)
		if err != nil {
			panic(err) // made here
		}
		all = append(all, b)
	}
	return all
}

// response is a streamed response of so many chunks, encoded.
func response(chunks int) [][]byte {
	const event = `data: {"id":"chatcmpl-8b0f6f6a7b0e4c7f","object":"chat.completion.chunk","created":1800000000,"model":"bench","choices":[{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}]}` + "\n\n"
	r := extproctest.Response{Status: 200, Headers: [][2]string{{"content-type", "text/event-stream"}, {"server", "uvicorn"}, {"date", "Mon, 30 Nov 2026 09:00:00 GMT"}}}
	add := func(chunk string) {
		r.Body = append(r.Body, chunk...)
		r.Cuts = append(r.Cuts, len(chunk))
	}
	for range chunks - 3 { // those at the end: reason, usage, done
		add(fmt.Sprintf(event, `"content":" token"`, "null"))
	}
	add(fmt.Sprintf(event, "", `"stop"`))
	add(`data: {"id":"chatcmpl-8b0f6f6a7b0e4c7f","object":"chat.completion.chunk","created":1800000000,"model":"bench","choices":[],"usage":{"prompt_tokens":1000,"total_tokens":1024,"completion_tokens":24}}` + "\n\n")
	add("data: [DONE]\n\n")
	return encode(r.Messages())
}

// decided is how long decisions took, as the proxy sees it: from the last of
// the request sent to the destination received.
type decided []time.Duration

// at is a quantile, in milliseconds.
func (d decided) at(q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	return float64(d[min(len(d)-1, int(q*float64(len(d))))]) / float64(time.Millisecond)
}

// played is what a load came to.
type played struct {
	requests int
	elapsed  time.Duration
	decided  decided // sorted
}

// play keeps so many requests under way for the duration, and plays their
// responses, or, with none, aborts them at the decision.
func (t *traffic) play(ctx context.Context, conns []*grpc.ClientConn, o options, answer [][]byte) (played, error) {
	var p played
	var mu sync.Mutex
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	began := time.Now()
	for i := range concurrency {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(o.seed, uint64(time.Now().UnixNano())+uint64(i))) // new prompts in every load
			var mine decided
			for time.Since(began) < o.duration && failed.Load() == nil && ctx.Err() == nil {
				d, err := one(ctx, conns[i%len(conns)], t.request(rng), answer)
				if err != nil {
					failed.Store(&err)
					return
				}
				mine = append(mine, d)
			}
			mu.Lock()
			defer mu.Unlock()
			p.decided = append(p.decided, mine...)
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return p, *err
	}
	p.elapsed, p.requests = time.Since(began), len(p.decided)
	slices.Sort(p.decided)
	return p, ctx.Err()
}

// one plays one request: each chunk of its response is sent when the one before
// it came back.
func one(ctx context.Context, conn *grpc.ClientConn, request, answer [][]byte) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x, err := open(ctx, conn)
	if err != nil {
		return 0, err
	}
	took, err := x.ask(request)
	if err != nil || len(answer) == 0 {
		return took, err
	}
	part := partResponseHeaders
	for _, b := range answer {
		if err := x.send(b); err != nil {
			return took, err
		}
		if err := x.receive(part); err != nil {
			return took, err
		}
		part = partResponseBody
	}
	return took, x.end()
}

// ask sends a request and returns how long its decision took.
func (x *exchange) ask(request [][]byte) (time.Duration, error) {
	for _, b := range request {
		if err := x.send(b); err != nil {
			return 0, err
		}
	}
	sent := time.Now()
	if err := x.receive(partRequestHeaders); err != nil {
		return 0, err
	}
	took := time.Since(sent)
	return took, x.receive(partRequestBody)
}
