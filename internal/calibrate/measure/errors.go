package measure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// What may be wrong with an endpoint, beside being unreachable. Errors of this
// package wrap one of them where it applies.
var (
	ErrAPI         = errors.New("it does not speak the OpenAI API")
	ErrKey         = errors.New("it refused the key")
	ErrCertificate = errors.New("its TLS certificate is not trusted")
	ErrLLM         = errors.New("which LLM to measure is not clear")
	ErrUsage       = errors.New("it reports no usage, so the tokens of a prompt are not known")
	ErrBusy        = errors.New("it is busy")
	ErrUnwatched   = errors.New("whether it is busy can't be told")
	ErrTokens      = errors.New("the bound on tokens is reached")
	ErrSteps       = errors.New("too few steps in which all sequences decoded")
	ErrTimeout     = errors.New("no answer in time")
)

// failure makes the error of a request that brought no answer.
func failure(what string, err error) error {
	var slow interface{ Timeout() bool }
	timeout := errors.As(err, &slow) && slow.Timeout()
	if outer := new(url.Error); errors.As(err, &outer) {
		err = outer.Err // what repeats the method and the URL
	}
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%s: %w: %w", what, ErrCertificate, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s: it answers without TLS: want http:// in front of it", what)
	case timeout:
		return fmt.Errorf("%s: %w", what, ErrTimeout)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// refusal makes the error of an answer with another status than 200. message
// is what the body says.
func refusal(what string, status int, message string) error {
	if message != "" {
		message = ": " + message
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: %w: status %d%s", what, ErrKey, status, message)
	}
	return fmt.Errorf("%s: status %d%s", what, status, message)
}
