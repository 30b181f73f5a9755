// Package extproc is the front door for proxies: an endpoint picker by the
// endpoint-picker protocol of the Gateway API inference extension, over
// Envoy's external processing (envoy.service.ext_proc.v3, bodies in
// FULL_DUPLEX_STREAMED). It translates and meters; it decides nothing.
//
// One gRPC stream is one HTTP request. Its headers and body come in, and at the
// end of the body, or at once where there is none, the answer goes out: the
// endpoints to try in order, as a header and as dynamic metadata, then the body
// as it came. The response passes byte for byte while a meter listens for the
// latency labels.
//
// How a request is recorded, where it differs from package gateway:
//
//	client_abort      the stream ended before the response did. Whether the
//	                  client left or the endpoint broke off is not told here;
//	                  what failed before a response comes as one of the proxy's
//	                  own, with its status
//	upstream_timeout  nothing came for longer than the time-outs allow
//	ok, no latencies  the response was not shown here, or by an endpoint other
//	                  than the one that was handed the request first
//
// TTFT counts from when the last of the request went back to the proxy.
package extproc
