// Package openai understands as much of the OpenAI HTTP API as routing needs
// and no more: it reads a request body in one pass without decoding it, meters
// a response as it streams by, turns what was metered into latency labels, and
// writes error bodies of the API's shape.
//
// The package is pure: it neither opens connections nor reads clocks, and it
// never re-marshals what a client or an engine wrote. Bodies are edited, where
// they must be, by inserting bytes.
package openai

import "strings"

// API is the part of the OpenAI surface that a request is addressed to.
type API uint8

// The APIs that are understood. Requests of any other path are Other: they can
// be forwarded by load, but nothing is promised about their bodies.
const (
	Other API = iota
	Completions
	Chat
	Responses
	Embeddings
)

// String returns the API's name as it appears in metrics and logs.
func (a API) String() string {
	switch a {
	case Completions:
		return "completions"
	case Chat:
		return "chat"
	case Responses:
		return "responses"
	case Embeddings:
		return "embeddings"
	}
	return "other"
}

// Path returns the path that requests of this API are posted to, or "" for
// Other.
func (a API) Path() string {
	switch a {
	case Completions:
		return "/v1/completions"
	case Chat:
		return "/v1/chat/completions"
	case Responses:
		return "/v1/responses"
	case Embeddings:
		return "/v1/embeddings"
	}
	return ""
}

// APIOf returns the API that a URL path addresses. A query string and a
// trailing slash do not matter, and neither does a prefix before /v1, which
// some front doors keep.
func APIOf(path string) API {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimSuffix(path, "/")
	for _, a := range [...]API{Completions, Chat, Responses, Embeddings} {
		if strings.HasSuffix(path, a.Path()) {
			return a
		}
	}
	return Other
}
