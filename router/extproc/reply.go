package extproc

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/router/front"
)

// longestPiece is the most bytes of a body that go back in one message: what
// Envoy takes at once is 64 KiB with all around it.
const longestPiece = 62000

// What goes back where there is nothing to say.
var (
	passResponseHeaders = encode(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{}},
	}})
	passRequestTrailers = encode(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{
		RequestTrailers: &extprocv3.TrailersResponse{},
	}})
	passResponseTrailers = encode(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
		ResponseTrailers: &extprocv3.TrailersResponse{},
	}})
	// headersAlone is passResponseHeaders, and asks to be shown no more.
	headersAlone = encode(&extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_ResponseHeaders{
			ResponseHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{}},
		},
		ModeOverride: &modev3.ProcessingMode{
			ResponseBodyMode: modev3.ProcessingMode_NONE, ResponseTrailerMode: modev3.ProcessingMode_SKIP,
		},
	})
)

func encode(m proto.Message) encoded {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // made of constants
	}
	return b
}

// header sets a header, whatever a client had put there.
func header(key, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: key, RawValue: []byte(value)},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// refusal makes the proxy answer with a fault.
func refusal(f front.Fault) *extprocv3.ProcessingResponse {
	headers := []*corev3.HeaderValueOption{header("content-type", "application/json"), header(headerReason, f.Reason)}
	if after := f.RetryAfterSeconds(); after != "" {
		headers = append(headers, header("retry-after", after))
	}
	if f.Decision != "" {
		headers = append(headers, header(headerDecision, f.Decision))
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extprocv3.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(f.Status)},
			Headers: &extprocv3.HeaderMutation{SetHeaders: headers},
			Body:    f.Body(),
			Details: "spillway_" + f.Reason,
		},
	}}
}
