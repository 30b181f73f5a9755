package extproc

import (
	"bytes"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

// same compares what was read in place with what protobuf's own reader makes
// of it.
func same(t interface{ Errorf(string, ...any) }, m *message, want *extprocv3.ProcessingRequest) {
	var k kind
	var body []byte
	var end bool
	var headers *corev3.HeaderMap
	switch r := want.Request.(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		k, headers, end = requestHeaders, r.RequestHeaders.GetHeaders(), r.RequestHeaders.GetEndOfStream()
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		k, headers, end = responseHeaders, r.ResponseHeaders.GetHeaders(), r.ResponseHeaders.GetEndOfStream()
	case *extprocv3.ProcessingRequest_RequestBody:
		k, body, end = requestBody, r.RequestBody.GetBody(), r.RequestBody.GetEndOfStream()
	case *extprocv3.ProcessingRequest_ResponseBody:
		k, body, end = responseBody, r.ResponseBody.GetBody(), r.ResponseBody.GetEndOfStream()
	case *extprocv3.ProcessingRequest_RequestTrailers:
		k = requestTrailers
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		k = responseTrailers
	}
	if m.kind != k || m.end != end || !bytes.Equal(m.body, body) || m.observability != want.ObservabilityMode {
		t.Errorf("read kind %d, end %v, %d bytes of body, observability %v; want %d, %v, %d, %v",
			m.kind, m.end, len(m.body), m.observability, k, end, len(body), want.ObservabilityMode)
	}
	i := 0
	all := headers.GetHeaders()
	if err := eachHeader(m.headers, func(key, value []byte) bool {
		h := all[i]
		if i++; string(key) != h.GetKey() || h.RawValue != nil && !bytes.Equal(value, h.RawValue) || h.RawValue == nil && string(value) != h.Value {
			t.Errorf("header %q: %q, want %v", key, value, h)
		}
		return true
	}); err != nil || i != len(all) {
		t.Errorf("%d headers, %v; want %d", i, err, len(all))
	}
	if p := want.ProtocolConfig; m.modes.told != (p != nil) || m.modes.request != uint64(p.GetRequestBodyMode()) || m.modes.response != uint64(p.GetResponseBodyMode()) {
		t.Errorf("modes %+v, want %v", m.modes, p)
	}
}

func TestReadsWhatProtobufWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := &extprocv3.HttpBody{Body: rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(rt, "body"), EndOfStream: rapid.Bool().Draw(rt, "end")}
		headers := &extprocv3.HttpHeaders{EndOfStream: body.EndOfStream, Headers: &corev3.HeaderMap{}}
		for range rapid.IntRange(0, 5).Draw(rt, "headers") {
			h := &corev3.HeaderValue{Key: rapid.StringMatching("[a-z:-]{0,9}").Draw(rt, "key")}
			if rapid.Bool().Draw(rt, "raw") {
				h.RawValue = []byte(rapid.StringN(1, 9, 30).Draw(rt, "value"))
			} else {
				h.Value = rapid.StringN(0, 9, 30).Draw(rt, "value")
			}
			headers.Headers.Headers = append(headers.Headers.Headers, h)
		}
		want := &extprocv3.ProcessingRequest{ObservabilityMode: rapid.Bool().Draw(rt, "observability")}
		switch rapid.IntRange(0, 6).Draw(rt, "kind") {
		case 0:
			want.Request = &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers}
		case 1:
			want.Request = &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: headers}
		case 2:
			want.Request = &extprocv3.ProcessingRequest_RequestBody{RequestBody: body}
		case 3:
			want.Request = &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: body}
		case 4:
			want.Request = &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{Trailers: headers.Headers}}
		case 5:
			want.Request = &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}
		}
		if rapid.Bool().Draw(rt, "modes") {
			want.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: 4, ResponseBodyMode: 1}
		}
		b, err := proto.Marshal(want)
		if err != nil {
			rt.Fatal(err)
		}
		var m message
		if err := wire.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b[:len(b)/2]), mem.SliceBuffer(b[len(b)/2:])}, &m); err != nil {
			rt.Fatal(err)
		}
		same(rt, &m, want)
		m.release()
	})
}

// TestGoToIsAsProtobufWritesIt compares what is written by hand with the message
// it means.
func TestGoToIsAsProtobufWritesIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		destinations := strings.Repeat("10.0.0.1:8000,", rapid.IntRange(0, 20).Draw(rt, "more")) + "[2001:db8::1]:8000"
		want := &extprocv3.ProcessingResponse{
			Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
				Response: &extprocv3.CommonResponse{
					ClearRouteCache: true,
					HeaderMutation:  &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{header(keyDestination, destinations)}},
				},
			}},
			DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
				namespaceDestination: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
					keyDestination: structpb.NewStringValue(destinations),
				}}),
			}},
		}
		b := goTo(destinations)
		var got extprocv3.ProcessingResponse
		if err := proto.Unmarshal(b, &got); err != nil {
			rt.Fatal(err)
		}
		if !proto.Equal(&got, want) {
			rt.Errorf("it says %v, want %v", &got, want)
		}
		if len(b) > mostGoTo+2*len(destinations) {
			rt.Errorf("it takes %d bytes", len(b))
		}
	})
}

func TestProtobufReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &piece{
			kind:   rapid.SampledFrom([]kind{requestBody, responseBody}).Draw(rt, "kind"),
			body:   bytes.Repeat([]byte("x"), rapid.OneOf(rapid.IntRange(0, 300), rapid.SampledFrom([]int{16383, 16384, longestPiece})).Draw(rt, "length")),
			end:    rapid.Bool().Draw(rt, "end"),
			stable: rapid.Bool().Draw(rt, "stable"),
		}
		data, err := wire.Marshal(p)
		if err != nil {
			rt.Fatal(err)
		}
		var got extprocv3.ProcessingResponse
		if err := proto.Unmarshal(data.Materialize(), &got); err != nil {
			rt.Fatal(err)
		}
		if frame := p.frame(nil); len(frame) > mostFrame {
			rt.Errorf("the frame takes %d bytes", len(frame))
		}
		data.Free()
		streamed := got.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if p.kind == responseBody {
			streamed = got.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		}
		if streamed == nil || !bytes.Equal(streamed.Body, p.body) || streamed.EndOfStream != p.end {
			rt.Errorf("%v of %d bytes, want %d, end %v", streamed.GetEndOfStream(), len(streamed.GetBody()), len(p.body), p.end)
		}
	})
}

// FuzzRead: whatever comes, the reader and protobuf's agree on what is no
// message, as far as the reader looks, and on what it says.
func FuzzRead(f *testing.F) {
	for _, m := range []*extprocv3.ProcessingRequest{
		{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: []byte("x"), EndOfStream: true}}},
		{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":path", RawValue: []byte("/")}}}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x22, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var want extprocv3.ProcessingRequest
		valid := proto.Unmarshal(b, &want) == nil
		var m message
		err := m.read(b)
		if err == nil {
			err = eachHeader(m.headers, func(_, _ []byte) bool { return true })
		}
		if err == nil {
			_, _ = subset(m.metadata)
			_, _ = served(m.metadata)
		}
		if valid && err != nil {
			t.Errorf("%x: %v", b, err)
		}
		again, _ := proto.Marshal(&want)
		if !valid || !bytes.Equal(again, b) {
			return // repeated and unknown fields are read in ways of their own
		}
		same(t, &m, &want)
	})
}
