package openai

import (
	"encoding/json"
)

// ErrorBody returns an error body of the API's shape:
//
//	{"error":{"message":...,"type":...,"param":null,"code":...}}
//
// An empty kind becomes the type that the API gives errors of this HTTP
// status; an empty code becomes null.
func ErrorBody(status int, kind, code, message string) []byte {
	type inner struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	e := inner{Message: message, Type: kind}
	if kind == "" {
		e.Type = errorType(status)
	}
	if code != "" {
		e.Code = &code
	}
	b, err := json.Marshal(struct {
		Error inner `json:"error"`
	}{e})
	if err != nil {
		panic(err) // strings alone always marshal
	}
	return b
}

func errorType(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 403:
		return "permission_error"
	case status == 404:
		return "not_found_error"
	case status == 429:
		return "rate_limit_error"
	case status >= 400 && status < 500:
		return "invalid_request_error"
	}
	return "server_error"
}
