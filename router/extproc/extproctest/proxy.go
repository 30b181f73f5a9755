package extproctest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// Proxy is a connection to a picker.
type Proxy struct {
	conn   *grpc.ClientConn
	client extprocv3.ExternalProcessorClient
	health grpc_health_v1.HealthClient
}

// Dial returns a proxy of the picker at host:port; protection nil means plain
// text.
func Dial(address string, protection *tls.Config) (*Proxy, error) {
	with := insecure.NewCredentials()
	if protection != nil {
		with = credentials.NewTLS(protection)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(with), grpc.WithNoProxy(), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, err
	}
	return &Proxy{conn, extprocv3.NewExternalProcessorClient(conn), grpc_health_v1.NewHealthClient(conn)}, nil
}

// Close ends the connection and all its streams.
func (p *Proxy) Close() error { return p.conn.Close() }

// Health asks how a service is: SERVING, NOT_SERVING.
func (p *Proxy) Health(ctx context.Context, service string) (string, error) {
	r, err := p.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	return r.GetStatus().String(), err
}

// Request is an HTTP request as its client sent it.
type Request struct {
	Method   string
	Path     string
	Headers  [][2]string // beside the two above, in lower case
	Body     []byte
	Cuts     []int    // lengths of the pieces that the body comes in; the last takes the rest
	Subset   []string // that the picker must choose from; nil: not said
	Trailers bool     // trailers follow the body
	Modes    *Modes   // that the proxy says it is configured with; nil: not said
}

// Message is one message of a proxy.
type Message = extprocv3.ProcessingRequest

// Observing is the first message of a proxy that does not listen.
func Observing(r Request) *Message {
	m := r.Messages()[0]
	m.ObservabilityMode = true
	return m
}

// Modes are the body modes of a proxy, by name: NONE, FULL_DUPLEX_STREAMED.
type Modes struct{ Request, Response string }

// Post is a request with a body to a path.
func Post(path string, body []byte) Request {
	return Request{Method: "POST", Path: path, Body: body, Headers: [][2]string{
		{":scheme", "http"}, {":authority", "inference.example.com"}, {"content-type", "application/json"},
		{"content-length", strconv.Itoa(len(body))}, {"user-agent", "extproctest"}, {"accept", "*/*"},
		{"x-forwarded-proto", "http"}, {"x-request-id", "6d6cf7a8-5e8c-4a0c-8f3f-2f4a1f1c9d11"},
	}}
}

// Response is an HTTP response as an endpoint sends it.
type Response struct {
	Status   int
	Headers  [][2]string
	Body     []byte
	Cuts     []int // as of a request
	Trailers bool

	// Served is the endpoint that serves, as the proxy says, "" for nothing
	// said; in metadata, or in a header.
	Served         string
	ServedInHeader bool
}

// Cuts draws lengths, each up to most, that sum to n.
func Cuts(rng *rand.Rand, n, most int) (cuts []int) {
	for n > 0 {
		c := 1 + rng.IntN(min(n, most))
		cuts = append(cuts, c)
		n -= c
	}
	return cuts
}

// pieces cuts a body.
func pieces(body []byte, cuts []int) (all [][]byte) {
	for _, n := range cuts {
		if n = min(n, len(body)); n > 0 {
			all = append(all, body[:n])
			body = body[n:]
		}
	}
	if len(body) > 0 || len(all) == 0 {
		all = append(all, body)
	}
	return all
}

// Messages is what a proxy sends for the request, in order.
func (r *Request) Messages() []*Message {
	bodiless := r.Body == nil && !r.Trailers
	headers := &Message{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
		Headers:     headerMap(append([][2]string{{":method", r.Method}, {":path", r.Path}}, r.Headers...)),
		EndOfStream: bodiless,
	}}}
	if r.Subset != nil {
		var list []*structpb.Value
		for _, address := range r.Subset {
			list = append(list, structpb.NewStringValue(address))
		}
		headers.MetadataContext = metadata("envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", structpb.NewListValue(&structpb.ListValue{Values: list}))
	}
	if r.Modes != nil {
		headers.ProtocolConfig = &extprocv3.ProtocolConfiguration{
			RequestBodyMode:  modev3.ProcessingMode_BodySendMode(modev3.ProcessingMode_BodySendMode_value[r.Modes.Request]),
			ResponseBodyMode: modev3.ProcessingMode_BodySendMode(modev3.ProcessingMode_BodySendMode_value[r.Modes.Response]),
		}
	}
	all := []*Message{headers}
	if r.Body != nil {
		parts := pieces(r.Body, r.Cuts)
		for i, part := range parts {
			all = append(all, &Message{Request: &extprocv3.ProcessingRequest_RequestBody{
				RequestBody: &extprocv3.HttpBody{Body: part, EndOfStream: i == len(parts)-1 && !r.Trailers},
			}})
		}
	}
	if r.Trailers {
		all = append(all, &Message{Request: &extprocv3.ProcessingRequest_RequestTrailers{
			RequestTrailers: &extprocv3.HttpTrailers{Trailers: headerMap([][2]string{{"x-sum", "1"}})},
		}})
	}
	return all
}

// Messages is what a proxy sends for the response, in order.
func (r *Response) Messages() []*Message {
	list := append([][2]string{{":status", strconv.Itoa(r.Status)}}, r.Headers...)
	if r.Served != "" && r.ServedInHeader {
		list = append(list, [2]string{"x-gateway-destination-endpoint-served", r.Served})
	}
	headers := &Message{Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
		Headers:     headerMap(list),
		EndOfStream: r.Body == nil && !r.Trailers,
	}}}
	if r.Served != "" && !r.ServedInHeader {
		headers.MetadataContext = metadata("envoy.lb", "x-gateway-destination-endpoint-served", structpb.NewStringValue(r.Served))
	}
	all := []*Message{headers}
	if r.Body != nil {
		parts := pieces(r.Body, r.Cuts)
		for i, part := range parts {
			all = append(all, Chunk(part, i == len(parts)-1 && !r.Trailers))
		}
	}
	if r.Trailers {
		all = append(all, &Message{Request: &extprocv3.ProcessingRequest_ResponseTrailers{
			ResponseTrailers: &extprocv3.HttpTrailers{},
		}})
	}
	return all
}

// Chunk is a piece of a response's body.
func Chunk(body []byte, end bool) *Message {
	return &Message{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: body, EndOfStream: end},
	}}
}

func headerMap(headers [][2]string) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for _, h := range headers {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])})
	}
	return m
}

func metadata(namespace, key string, value *structpb.Value) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		namespace: {Fields: map[string]*structpb.Value{key: value}},
	}}
}

// Stream is one HTTP request at the picker.
type Stream struct {
	extprocv3.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
}

// Open begins a stream.
func (p *Proxy) Open(ctx context.Context) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err := p.client.Process(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Stream{s, cancel}, nil
}

// Abort ends the stream, as a proxy does whose client or endpoint is gone.
func (s *Stream) Abort() { s.cancel() }

// Picked is what a picker said about a request.
type Picked struct {
	Destinations []string // in order
	Body         []byte   // as it came back
	Longest      int      // bytes of its longest piece

	// Of a refusal.
	Status  int // 0: not refused
	Reply   string
	Headers map[string]string
}

// Pick sends the request and takes in what the picker says.
func (s *Stream) Pick(r Request) (Picked, error) {
	for _, m := range r.Messages() {
		if err := s.Send(m); err != nil {
			break // what was wrong, Recv tells
		}
	}
	return s.Picked(&r)
}

// Picked takes in what the picker says about a request that was sent.
func (s *Stream) Picked(r *Request) (Picked, error) {
	var p Picked
	first, err := s.Recv()
	if err != nil {
		return p, err
	}
	if refused := first.GetImmediateResponse(); refused != nil {
		p.Status, p.Reply, p.Headers = int(refused.GetStatus().GetCode()), string(refused.GetBody()), map[string]string{}
		for _, h := range refused.GetHeaders().GetSetHeaders() {
			p.Headers[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
		}
		return p, nil
	}
	if p.Destinations, err = destinations(first); err != nil {
		return p, err
	}
	for more := r.Body != nil; more; {
		m, err := s.Recv()
		if err != nil {
			return p, fmt.Errorf("a piece of the body: %w", err)
		}
		if m.GetRequestTrailers() != nil && r.Trailers {
			return p, nil
		}
		piece := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if piece == nil {
			return p, fmt.Errorf("not a piece of the body: %v", m)
		}
		p.Body = append(p.Body, piece.GetBody()...)
		p.Longest = max(p.Longest, len(piece.GetBody()))
		more = !piece.GetEndOfStream()
	}
	if r.Body == nil && r.Trailers {
		if m, err := s.Recv(); err != nil || m.GetRequestTrailers() == nil {
			return p, fmt.Errorf("not the trailers: %v, %w", m, err)
		}
	}
	return p, nil
}

// destinations reads where a request goes and checks that header and metadata
// say the same.
func destinations(m *extprocv3.ProcessingResponse) ([]string, error) {
	const key = "x-gateway-destination-endpoint"
	set := m.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()
	i := slices.IndexFunc(set, func(h *corev3.HeaderValueOption) bool { return h.GetHeader().GetKey() == key })
	if i < 0 {
		return nil, fmt.Errorf("no destination in %v", m)
	}
	value := string(set[i].GetHeader().GetRawValue())
	if other := m.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()[key].GetStringValue(); other != value {
		return nil, fmt.Errorf("the header says %q, the metadata %q", value, other)
	}
	return strings.Split(value, ","), nil
}

// Answer sends the response and takes it back as the picker passes it on.
func (s *Stream) Answer(r Response) (body []byte, err error) {
	for _, m := range r.Messages() {
		if err := s.Send(m); err != nil {
			break
		}
	}
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	if m.GetResponseHeaders() == nil || len(m.GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()) > 0 {
		return nil, fmt.Errorf("response headers don't pass: %v", m)
	}
	for r.Body != nil || r.Trailers {
		m, err := s.Recv()
		if err != nil {
			return body, err
		}
		if m.GetResponseTrailers() != nil && r.Trailers {
			break
		}
		piece := m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if piece == nil {
			return body, fmt.Errorf("not a piece of the body: %v", m)
		}
		body = append(body, piece.GetBody()...)
		if piece.GetEndOfStream() {
			break
		}
	}
	return body, nil
}

// End says that the request is over and waits until the picker has ended the
// stream too.
func (s *Stream) End() error {
	defer s.cancel()
	if err := s.CloseSend(); err != nil {
		return err
	}
	for {
		switch m, err := s.Recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("the picker had more to say: %v", m)
		}
	}
}
