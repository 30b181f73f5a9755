package featurestore

import (
	"log/slog"
	"sync"
	"time"
)

// tellEvery is how long passes between two lines about rows lost for one
// reason.
const tellEvery = time.Minute

// dropLog tells of lost rows: at once when none were lost for a while, then
// once a minute how many more, and the rest at the end. The zero value with a
// log is ready.
type dropLog struct {
	log *slog.Logger

	mu     sync.Mutex
	losses map[dropReason]*loss
}

// loss is what is known of one reason.
type loss struct {
	rows int       // since told
	err  error     // the last one of them
	told time.Time // zero before the first line
}

func (l *dropLog) lost(now time.Time, reason dropReason, rows int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.losses == nil {
		l.losses = map[dropReason]*loss{}
	}
	if l.losses[reason] == nil {
		l.losses[reason] = &loss{}
	}
	v := l.losses[reason]
	v.rows += rows
	if err != nil {
		v.err = err
	}
	if now.Sub(v.told) >= tellEvery {
		l.tell(now, reason)
	}
}

// tick tells what is due. Without it the last rows of a burst would wait for
// the next one.
func (l *dropLog) tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, reason := range dropReasons {
		if v := l.losses[reason]; v != nil && now.Sub(v.told) >= tellEvery {
			l.tell(now, reason)
		}
	}
}

// end tells what has not been told.
func (l *dropLog) end(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, reason := range dropReasons {
		if l.losses[reason] != nil {
			l.tell(now, reason)
		}
	}
}

func (l *dropLog) tell(now time.Time, reason dropReason) {
	v := l.losses[reason]
	if v.rows == 0 {
		return
	}
	attrs := []any{"reason", string(reason), "rows", v.rows}
	if v.err != nil {
		attrs = append(attrs, "error", oneLine(v.err))
	}
	l.log.Error("rows are lost on their way to the database", attrs...)
	*v = loss{told: now}
}
