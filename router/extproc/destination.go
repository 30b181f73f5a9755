package extproc

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// mostGoTo is the most bytes of what goTo writes beside its destinations.
const mostGoTo = 256

// goTo tells the proxy where a request goes: to the first of the destinations,
// "ip:port,ip:port", that it can reach. Header and metadata say the same.
//
// One is written for each request, and it is nested nine deep, with maps:
// protobuf allocates for it as much as the whole decision does. So it is written
// here, inside out.
func goTo(destinations string) encoded {
	b := make([]byte, 0, mostGoTo+2*len(destinations))
	b = appendText(b, 1, keyDestination) // HeaderValue: key, raw_value
	b = appendText(b, 3, destinations)
	b = wrap(b, 0, 1) // HeaderValueOption: header, append_action
	b = appendNumber(b, 3, uint64(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
	b = wrap(b, 0, 1)         // HeaderMutation: set_headers
	b = wrap(b, 0, 2)         // CommonResponse: header_mutation, clear_route_cache
	b = appendNumber(b, 5, 1) // true
	b = wrap(b, 0, 1)         // HeadersResponse: response
	b = wrap(b, 0, 1)         // ProcessingResponse: request_headers

	metadata := len(b)
	b = appendText(b, 1, namespaceDestination) // an entry of Struct.fields: key, value
	value := len(b)
	b = appendText(b, 1, keyDestination) // the same of the struct inside
	inner := len(b)
	b = appendText(b, 3, destinations) // Value: string_value
	b = wrap(b, inner, 2)
	b = wrap(b, value, 1)       // Struct: fields
	b = wrap(b, value, 5)       // Value: struct_value
	b = wrap(b, value, 2)       // the entry's value
	b = wrap(b, metadata, 1)    // Struct: fields
	return wrap(b, metadata, 8) // ProcessingResponse: dynamic_metadata
}

// wrap makes one field of what is in b from a place on.
func wrap(b []byte, from int, id protowire.Number) []byte {
	var head [2 * 10]byte // two varints at their longest
	h := protowire.AppendTag(head[:0], id, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(len(b)-from))
	return slices.Insert(b, from, h...)
}

func appendText(b []byte, id protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, id, protowire.BytesType), text)
}

func appendNumber(b []byte, id protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, id, protowire.VarintType), n)
}
