package featurestore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDropLog(t *testing.T) {
	var said bytes.Buffer
	l := dropLog{log: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return a
		}}))}
	start := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	expect := func(when string, lines ...string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(said.String()) {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		said.Reset()
	}

	l.tick(at(0))
	expect("nothing was lost")
	l.lost(at(0), dropSpoolFull, 10, nil)
	expect("the first is told at once", "reason=spool_full rows=10")
	for second := 1; second < 180; second++ { // lost all the time
		l.lost(at(float64(second)), dropSpoolFull, 1, nil)
	}
	expect("three minutes without a pause", "reason=spool_full rows=60", "reason=spool_full rows=60")
	l.lost(at(180), dropRefused, 1, errors.New("too\nlarge"))
	expect("another reason is told by itself", `reason=refused rows=1 error="too large"`)
	l.tick(at(180))
	expect("the rest of the burst", "reason=spool_full rows=59")
	l.tick(at(500))
	expect("nothing is told twice")
	l.lost(at(501), dropSpoolFull, 2, nil)
	l.lost(at(502), dropSpoolFull, 3, nil)
	l.end(at(503))
	expect("the end", "reason=spool_full rows=2", "reason=spool_full rows=3")
}
