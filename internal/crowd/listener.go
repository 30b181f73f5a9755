package crowd

import (
	"bytes"
	"fmt"
	"net/http"
)

// listener hears when an answer begins, and how it ends.
type listener struct {
	begun func() // called once; nil afterwards
	last  []byte
	wrong int // events that are errors
}

const errorEvent = `data: {"error"`

func (l *listener) Write(p []byte) (int, error) {
	if l.begun != nil {
		l.begun()
		l.begun = nil
	}
	before := l.last[max(0, len(l.last)-len(errorEvent)+1):] // an event may come in pieces
	l.wrong += bytes.Count(append(bytes.Clone(before), p...), []byte(errorEvent))
	l.last = append(l.last, p...)
	l.last = l.last[max(0, len(l.last)-64):]
	return len(p), nil
}

// judge says what is wrong with an answer that came to its end.
func (l *listener) judge(status int, streamed bool) error {
	switch {
	case status != http.StatusOK:
		return fmt.Errorf("status %d", status)
	case l.wrong > 0:
		return fmt.Errorf("%d events say that there was an error", l.wrong)
	case streamed && !bytes.HasSuffix(l.last, []byte("[DONE]\n\n")), !streamed && !bytes.HasSuffix(bytes.TrimSpace(l.last), []byte("}")):
		return fmt.Errorf("half an answer looks whole: it ends with %q", l.last)
	}
	return nil
}
