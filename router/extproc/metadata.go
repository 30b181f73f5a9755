package extproc

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spillway-llm/spillway/router/route"
)

// Names of the endpoint-picker protocol (gateway-api-inference-extension,
// proposal 004, version 1.0).
const (
	namespaceSubset      = "envoy.lb.subset_hint"
	keySubset            = "x-gateway-destination-endpoint-subset"
	namespaceDestination = "envoy.lb"
	keyDestination       = "x-gateway-destination-endpoint"
	keyServed            = "x-gateway-destination-endpoint-served"
)

// lookUp finds a value in an encoded Metadata; nil where it is not.
func lookUp(metadata []byte, namespace, key string) (*structpb.Value, error) {
	if len(metadata) == 0 {
		return nil, nil
	}
	var m corev3.Metadata
	if err := proto.Unmarshal(metadata, &m); err != nil {
		return nil, errMalformed
	}
	return m.GetFilterMetadata()[namespace].GetFields()[key], nil
}

// subset is the addresses of the endpoints that the proxy allows, sorted, as
// route.Query.Within wants them: nil where it says nothing.
func subset(metadata []byte) ([]string, error) {
	hint, err := lookUp(metadata, namespaceSubset, keySubset)
	if hint == nil || err != nil {
		return nil, err
	}
	within := []string{}
	add := func(text string) {
		for address := range strings.SplitSeq(text, ",") {
			if address = route.Address(address); address != "" {
				within = append(within, address)
			}
		}
	}
	add(hint.GetStringValue())
	for _, item := range hint.GetListValue().GetValues() {
		add(item.GetStringValue())
	}
	slices.Sort(within)
	return within, nil
}

// served is the address of the endpoint that serves, as the proxy says in its
// metadata, "" where it does not.
func served(metadata []byte) (string, error) {
	value, err := lookUp(metadata, namespaceDestination, keyServed)
	return route.Address(value.GetStringValue()), err
}
