package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
)

// maxBody is the most bytes of a request body that are read.
const maxBody = 64 << 20

// generate answers a completion or a chat completion.
func (l *life) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	if f := l.endpoint.fault.Load(); f.Kind == Error {
		writeError(w, f.Status, "simulated fault")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			writeError(w, http.StatusRequestEntityTooLarge, "the request body is larger than "+strconv.Itoa(maxBody)+" bytes")
		}
		return // else the client is gone
	}
	work, err := parse(body, chat)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	cfg := l.endpoint.fleet.cfg
	if work.Model != "" && work.Model != cfg.Model {
		writeError(w, http.StatusNotFound, "The model `"+work.Model+"` does not exist.")
		return
	}
	work.Model = cfg.Model
	if err := work.resolve(cfg, l.endpoint.profile.BlockTokens, l.loop.engine.MaxTokens()); err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	s, err := l.loop.submit(work.capped(), work.engineRequest)
	if errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	defer l.loop.cancel(s) // does nothing once the request has finished
	a := answer{life: l, stream: s, reply: newReply(work, s.id, l.started), w: w, r: r}
	if work.Stream {
		a.inChunks()
	} else {
		a.atOnce()
	}
}

// answer is one response in the making.
type answer struct {
	*life
	stream *stream
	reply  *reply
	w      http.ResponseWriter
	r      *http.Request
}

// await returns the number of tokens that exist when that changes, or when
// there is another reason to look. It ends the handler when the client or the
// engine is gone.
func (a *answer) await() (tokens int, finished bool) {
	select {
	case <-a.stream.ready:
	case <-a.r.Context().Done():
		panic(http.ErrAbortHandler)
	}
	finished = a.stream.finished.Load() // before tokens, which are final then
	return int(a.stream.tokens.Load()), finished
}

func (a *answer) atOnce() {
	for {
		tokens, finished := a.await()
		if tokens > 0 && a.endpoint.fault.Load().Kind == Reset {
			a.reset()
		}
		if finished {
			break
		}
	}
	a.w.Header().Set("Content-Type", "application/json")
	a.w.Write(a.reply.whole(int(a.stream.cached.Load())))
}

func (a *answer) inChunks() {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(a.w).Flush
	if flush() != nil {
		return
	}
	chunks := a.reply.chunks()
	var buf []byte
	sent := 0
	for finished := false; !finished; {
		var tokens int
		tokens, finished = a.await()
		reset := tokens > 0 && a.endpoint.fault.Load().Kind == Reset
		if reset {
			tokens, finished = max(sent, 1), false
		}
		buf = buf[:0]
		if sent == 0 && tokens > 0 {
			buf = chunks.open(buf)
		}
		for ; sent < tokens; sent++ {
			buf = chunks.token(buf, sent)
		}
		if finished {
			buf = chunks.close(buf, int(a.stream.cached.Load()))
		}
		if len(buf) > 0 {
			if _, err := a.w.Write(buf); err != nil || flush() != nil {
				return
			}
		}
		if reset {
			a.reset()
		}
	}
}

// reset breaks the connection in a way that the client sees as a reset.
func (a *answer) reset() {
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		conn.Close()
	}
	panic(http.ErrAbortHandler)
}
