package extproc

import (
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// kind is which part of a request or response a message carries; its values
// are the field numbers of ProcessingRequest.
type kind uint8

const (
	nothing          kind = 0
	requestHeaders   kind = 2
	responseHeaders  kind = 3
	requestBody      kind = 4
	responseBody     kind = 5
	requestTrailers  kind = 6
	responseTrailers kind = 7
)

// Fields of ProcessingRequest beside its parts.
const (
	fieldMetadata      = 8
	fieldObservability = 10
	fieldProtocol      = 11
)

// message is a ProcessingRequest as far as a picker reads it: in place, since
// one comes with every streamed chunk. What it points to is valid until the
// next message is received into it.
type message struct {
	kind          kind
	headers       []byte // of headers: the encoded HeaderMap
	body          []byte // of a body
	end           bool   // of headers and a body: nothing follows
	metadata      []byte // encoded Metadata, nil where there is none
	observability bool
	modes         modes

	held mem.Buffer // what all of it points to
}

// modes are the body modes that the proxy says it is configured with, as
// numbers of ProcessingMode.BodySendMode.
type modes struct {
	told              bool
	request, response uint64
}

// Body modes of ProcessingMode.BodySendMode that are told apart here.
const (
	modeNone       = 0
	modeFullDuplex = 4
)

// release lets go of what the message points to.
func (m *message) release() {
	if m.held != nil {
		m.held.Free()
	}
	*m = message{}
}

var errMalformed = errors.New("the message is no ProcessingRequest")

// read reads an encoded ProcessingRequest. Fields that it does not know it
// skips.
func (m *message) read(b []byte) error {
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.wire == protowire.VarintType && f.id == fieldObservability:
			m.observability = f.number != 0
		case f.wire != protowire.BytesType:
			// unknown, as protobuf has it
		case f.id == protowire.Number(requestHeaders), f.id == protowire.Number(responseHeaders):
			m.begin(f.id)
			err = m.readPart(f.bytes, &m.headers, 3)
		case f.id == protowire.Number(requestBody), f.id == protowire.Number(responseBody):
			m.begin(f.id)
			err = m.readPart(f.bytes, &m.body, 2)
		case f.id == protowire.Number(requestTrailers), f.id == protowire.Number(responseTrailers):
			m.begin(f.id)
			err = skipAll(f.bytes)
		case f.id == fieldMetadata:
			m.metadata = f.bytes
		case f.id == fieldProtocol:
			m.modes, err = readModes(f.bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin begins the part of a number; it takes the place of one before it.
func (m *message) begin(id protowire.Number) {
	m.kind, m.headers, m.body, m.end = kind(id), nil, nil, false
}

// readPart reads what a part of headers or of a body holds: its content, and
// under number end whether the stream ends with it.
func (m *message) readPart(b []byte, content *[]byte, end protowire.Number) error {
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.is(1, protowire.BytesType):
			*content = f.bytes
		case f.is(end, protowire.VarintType):
			m.end = f.number != 0
		}
	}
	return nil
}

func readModes(b []byte) (modes, error) {
	m := modes{told: true}
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return m, err
		}
		b = rest
		switch {
		case f.is(1, protowire.VarintType):
			m.request = f.number
		case f.is(2, protowire.VarintType):
			m.response = f.number
		}
	}
	return m, nil
}

func skipAll(b []byte) error {
	for len(b) > 0 {
		_, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// field is one field of a message on the wire.
type field struct {
	id     protowire.Number
	wire   protowire.Type
	number uint64 // of a varint
	bytes  []byte // of bytes
}

func (f *field) is(id protowire.Number, wire protowire.Type) bool {
	return f.id == id && f.wire == wire
}

// next takes one field from the front of b.
func next(b []byte) (f field, rest []byte, err error) {
	id, wire, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, nil, errMalformed
	}
	f.id, f.wire, b = id, wire, b[n:]
	switch wire {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	case protowire.VarintType:
		f.number, n = protowire.ConsumeVarint(b)
	default:
		n = protowire.ConsumeFieldValue(id, wire, b)
	}
	if n < 0 {
		return f, nil, errMalformed
	}
	return f, b[n:], nil
}

// eachHeader calls take for the headers of an encoded HeaderMap until it
// returns false. The key and value are valid during the call.
func eachHeader(b []byte, take func(key, value []byte) bool) error {
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		if !f.is(1, protowire.BytesType) {
			continue
		}
		var key, value, raw []byte
		for h := f.bytes; len(h) > 0; {
			if f, h, err = next(h); err != nil {
				return err
			}
			switch {
			case f.is(1, protowire.BytesType):
				key = f.bytes
			case f.is(2, protowire.BytesType):
				value = f.bytes
			case f.is(3, protowire.BytesType):
				raw = f.bytes
			}
		}
		if len(raw) > 0 {
			value = raw
		}
		if !take(key, value) {
			return nil
		}
	}
	return nil
}

// piece is a ProcessingResponse that carries a piece of a body on its way
// through.
type piece struct {
	kind   kind // requestBody or responseBody
	body   []byte
	end    bool
	stable bool // body stays as it is after it was sent
}

// A response's parts have other numbers than a request's.
const (
	answeredRequestBody  = 3
	answeredResponseBody = 4
)

// frame is what stands around the body of a piece: response { common_response {
// body_mutation { streamed_response { body, end_of_stream } } } }. The flag
// stands before the body, so that the body is the last.
func (p *piece) frame(b []byte) []byte {
	inner := 0 // streamed_response
	if p.end {
		inner += 2
	}
	if len(p.body) > 0 {
		inner += 1 + protowire.SizeBytes(len(p.body))
	}
	mutation := 1 + protowire.SizeBytes(inner)
	common := 1 + protowire.SizeBytes(mutation)
	body := 1 + protowire.SizeBytes(common)
	id := protowire.Number(answeredRequestBody)
	if p.kind == responseBody {
		id = answeredResponseBody
	}
	b = protowire.AppendTag(b, id, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(body))
	b = protowire.AppendTag(b, 1, protowire.BytesType) // response
	b = protowire.AppendVarint(b, uint64(common))
	b = protowire.AppendTag(b, 3, protowire.BytesType) // body_mutation
	b = protowire.AppendVarint(b, uint64(mutation))
	b = protowire.AppendTag(b, 3, protowire.BytesType) // streamed_response
	b = protowire.AppendVarint(b, uint64(inner))
	if p.end {
		b = protowire.AppendTag(b, 2, protowire.VarintType) // end_of_stream
		b = append(b, 1)
	}
	if len(p.body) > 0 {
		b = protowire.AppendTag(b, 1, protowire.BytesType) // body
		b = protowire.AppendVarint(b, uint64(len(p.body)))
	}
	return b
}

// mostFrame is the most bytes of a frame.
const mostFrame = 40

// encoded is a message that is encoded already.
type encoded []byte

// codec reads and writes what this package reads and writes itself, and leaves
// all other messages to protobuf.
type codec struct{ others encoding.CodecV2 }

var wire = codec{encoding.GetCodecV2(proto.Name)}

// Name implements encoding.CodecV2.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case encoded:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case *piece:
		return v.marshal(), nil
	}
	return c.others.Marshal(v)
}

func (p *piece) marshal() mem.BufferSlice {
	size := mostFrame + len(p.body)
	switch {
	case p.stable:
		frame := p.frame(make([]byte, 0, mostFrame))
		if len(p.body) == 0 {
			return mem.BufferSlice{mem.SliceBuffer(frame)}
		}
		return mem.BufferSlice{mem.SliceBuffer(frame), mem.SliceBuffer(p.body)}
	case mem.IsBelowBufferPoolingThreshold(size):
		return mem.BufferSlice{mem.SliceBuffer(append(p.frame(make([]byte, 0, size)), p.body...))}
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(size)
	*buffer = append(p.frame((*buffer)[:0]), p.body...)
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return c.others.Unmarshal(data, v)
	}
	m.release()
	m.held = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return m.read(m.held.ReadOnlyData())
}
