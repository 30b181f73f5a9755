package predictor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spillway-llm/spillway/internal/socket"
)

// Over a Unix socket a Client sends its forecasts in frames, and falls back to
// gRPC where the server does not speak them; all else is gRPC. Frames carry
// the same messages as latency.v1.Predictor/Forecast, but a call is one read
// and one write in one goroutine. At 1,000 calls a second gRPC takes a server
// about 60 us of CPU time beside the evaluation, frames about half of that.
//
// A connection begins with the hello, either way. Then come frames, integers
// little-endian:
//
//	4 bytes  length of the body
//	4 bytes  number of the call, which the answer repeats
//	8 bytes  in a call: when nobody waits for the answer any more, nanoseconds
//	         since 1970 UTC, 0 for never; in an answer: its gRPC status code
//	         body: a ForecastRequest; a ForecastResponse, or why there is none
//
// Answers come in any order.
const (
	frameHello  = "SPWFRM1\n"
	frameHeader = 4 + 4 + 8
	helloWithin = time.Second // of the connection
)

type header struct {
	size, call uint32
	value      uint64
}

func (h header) appendTo(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, h.size)
	b = binary.LittleEndian.AppendUint32(b, h.call)
	return binary.LittleEndian.AppendUint64(b, h.value)
}

func headerOf(b []byte) header {
	return header{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:])}
}

// errOversized is a frame that no call and no answer can be.
var errOversized = errors.New("a frame")

// frameReader reads frames.
type frameReader struct {
	from io.Reader
	most int    // bytes of a body
	room []byte // what was read; it grows to the largest frame
	next int    // first byte of room that was not returned
	end  int    // end of what was read
}

// read returns the next frame. The body is valid until the next call.
func (r *frameReader) read() (header, []byte, error) {
	if err := r.need(frameHeader); err != nil {
		return header{}, nil, err
	}
	h := headerOf(r.room[r.next:])
	if uint64(h.size) > uint64(r.most) {
		return h, nil, fmt.Errorf("%w of %d bytes, want at most %d", errOversized, h.size, r.most)
	}
	whole := frameHeader + int(h.size)
	if err := r.need(whole); err != nil {
		return h, nil, err
	}
	body := r.room[r.next+frameHeader : r.next+whole]
	r.next += whole
	return h, body, nil
}

// need reads until n bytes are there.
func (r *frameReader) need(n int) error {
	if r.next == r.end {
		r.next, r.end = 0, 0
	}
	if r.next+n > len(r.room) {
		room := r.room
		if n > len(room) {
			room = make([]byte, max(n, 64<<10))
		}
		r.end = copy(room, r.room[r.next:r.end])
		r.room, r.next = room, 0
	}
	for r.end-r.next < n {
		k, err := r.from.Read(r.room[r.end:])
		r.end += k
		if err != nil && r.end-r.next < n {
			return err
		}
	}
	return nil
}

// errNoFrames says that the other side does not speak frames: it began with
// something else than the hello.
var errNoFrames = errors.New("the predictor speaks gRPC alone")

// dialFrames connects to the Unix socket at path. It fails with errNoFrames
// where something else is said than the hello, as gRPC servers do: they send
// their settings before they have heard anything. One that says nothing is hung
// or on its way out, and speaks neither.
func dialFrames(ctx context.Context, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, helloWithin)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	answer := make([]byte, len(frameHello))
	said := 0
	if _, err = io.WriteString(conn, frameHello); err == nil {
		said, err = io.ReadFull(conn, answer)
	}
	if string(answer[:said]) != frameHello[:said] {
		err = errNoFrames
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return socket.Quiet(conn), nil
}
