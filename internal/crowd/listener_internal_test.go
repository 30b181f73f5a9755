package crowd

import (
	"strings"
	"testing"
)

func TestListenersKnowAWholeAnswer(t *testing.T) {
	const event = "data: {\"choices\":[]}\n\n"
	for _, c := range []struct {
		body     string
		status   int
		streamed bool
		fault    string
	}{
		{event + "data: [DONE]\n\n", 200, true, ""},
		{event, 200, true, "looks whole"},
		{event + "data: {\"error\":{}}\n\ndata: [DONE]\n\n", 200, true, "1 events"},
		{`{"choices":[]}` + "\n", 200, false, ""},
		{`{"choices":`, 200, false, "looks whole"},
		{`{"error":{}}`, 502, false, "status 502"},
	} {
		began := 0
		l := listener{begun: func() { began++ }}
		for _, b := range []byte(c.body) {
			_, _ = l.Write([]byte{b})
		}
		err := l.judge(c.status, c.streamed)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) || began != 1 {
			t.Errorf("%q: %v, want %q", c.body, err, c.fault)
		}
	}
}
