// Package extproctest plays the proxy to an endpoint picker: what Envoy sends
// for one HTTP request, piece by piece, and what it takes back. It reads and
// writes with Envoy's own types and protobuf's own code, so that it shares
// nothing with the package it tests.
package extproctest
