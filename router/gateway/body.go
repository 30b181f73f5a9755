package gateway

import (
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/spillway-llm/spillway/router/front"
)

// Bodies whose length is known lie in buffers that are used again, because
// prompts are long: clearing new memory for them, and collecting it, cost about
// as much as finding the prompt. Buffers come in sizes of powers of two, so that a
// short prompt that waits for its first token holds no long buffer.
const (
	leastBuffer = 4 << 10
	mostBuffer  = firstAlloc // what is longer, or of unknown length, is allocated as it comes
)

var buffers [1 + 8]sync.Pool // of *body, by size

// sizeOf is which buffers hold n bytes, at least 1, and how long they are.
func sizeOf(n int) (index, length int) {
	index = max(0, bits.Len(uint(n-1))-bits.Len(uint(leastBuffer-1)))
	return index, leastBuffer << index
}

// body is the bytes of a request. Its buffer goes to another request when the last
// of its users has let go of it; one that never does leaves it to the collector.
type body struct {
	bytes []byte
	users atomic.Int32
}

// newBody returns an empty body with room for n bytes, and one user.
func newBody(n int) *body {
	if n > mostBuffer {
		b := &body{bytes: make([]byte, 0, mostBuffer)}
		b.users.Store(1)
		return b
	}
	index, length := sizeOf(n)
	b, ok := buffers[index].Get().(*body)
	if !ok {
		b = &body{bytes: make([]byte, 0, length)}
	}
	b.users.Store(1)
	return b
}

// release lets go of b, which may be nil.
func (b *body) release() {
	if b == nil || b.users.Add(-1) != 0 {
		return
	}
	n := cap(b.bytes)
	if n < leastBuffer || n > mostBuffer {
		return
	}
	if index, length := sizeOf(n); length == n {
		b.bytes = b.bytes[:0]
		buffers[index].Put(b)
	}
}

// readFrom takes in r to its end. Where the buffer grows it takes more of room.
func (b *body) readFrom(r io.Reader, room *front.Room) error {
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := room.Take(cap(b.bytes)); err != nil {
				return err
			}
			grown := make([]byte, len(b.bytes), 2*cap(b.bytes))
			copy(grown, b.bytes)
			b.bytes = grown
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// payload is a request body on its way to an endpoint. It lets go of the bytes
// once they were read, because the transport holds on to its requests until
// their answers end. A transport may close it while it still reads.
type payload struct {
	mu     sync.Mutex
	rest   []byte
	of     *body // nil once it let go
	closed bool  // before all was read
}

// errClosed is what reading a closed payload gives.
var errClosed = errors.New("the request body was closed")

// newPayload makes a reader of all of bytes, which lie in b or, where b is nil, in
// memory of their own.
func newPayload(bytes []byte, b *body) *payload {
	if b != nil {
		b.users.Add(1)
	}
	return &payload{rest: bytes, of: b}
}

func (p *payload) Read(into []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.rest) > 0:
	case p.closed:
		return 0, errClosed
	default:
		return 0, io.EOF
	}
	n := copy(into, p.rest)
	if p.rest = p.rest[n:]; len(p.rest) == 0 {
		p.letGo()
	}
	return n, nil
}

// Close ends it, wherever it is: nothing is read after that.
func (p *payload) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.closed || len(p.rest) > 0
	p.letGo()
	return nil
}

func (p *payload) letGo() {
	p.rest = nil
	p.of.release()
	p.of = nil
}
