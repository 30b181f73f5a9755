package pool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	maxFile = 16 << 20 // bytes of an endpoints file
	// settle is how long a change is left to finish: an editor's write comes
	// in several events.
	settle = 100 * time.Millisecond
	// reread is how often the file is read without being told: notifications
	// do not cross network file systems.
	reread = 10 * time.Second
)

// watch reads the endpoints file again whenever it changes, until ctx ends.
func (p *Pool) watch(ctx context.Context) {
	var events chan fsnotify.Event
	var errs chan error
	// The directory, not the file: replacing a file, and the links behind a
	// mounted ConfigMap, give new files under the old name.
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		if err = watcher.Add(filepath.Dir(p.config.File)); err == nil {
			events, errs = watcher.Events, watcher.Errors
		}
	}
	if err != nil {
		p.log.Warn("endpoints file cannot be watched: it is read every 10 s instead", "file", p.config.File, "error", err)
	}

	p.file = p.readFile(p.file) // it may have changed before it was watched
	tick := time.NewTicker(reread)
	defer tick.Stop()
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-events:
			if !open {
				events = nil
			} else if settled == nil {
				settled = time.After(settle)
			}
		case err, open := <-errs:
			if !open {
				errs = nil
			} else {
				p.log.Warn("endpoints file: a notification was lost", "file", p.config.File, "error", err)
			}
		case <-settled:
			settled = nil
			p.file = p.readFile(p.file)
		case <-tick.C:
			p.file = p.readFile(p.file)
		}
	}
}

// readFile takes the endpoints file into the pool, unless it holds what was
// read last. It returns what it read. A file that cannot be read or holds no
// usable endpoint leaves the pool as it is.
func (p *Pool) readFile(last []byte) []byte {
	data, err := readAtMost(p.config.File, maxFile)
	if err != nil {
		if last != nil || !p.began {
			p.metrics.fileReads.WithLabelValues("unreadable").Inc()
			p.log.Error("endpoints file cannot be read: the endpoints stay as they are", "file", p.config.File, "error", err)
		}
		return nil
	}
	if last != nil && bytes.Equal(data, last) {
		return last
	}
	listed, complaints := ParseEndpoints(data)
	for _, complaint := range complaints {
		p.metrics.fileRejected.Inc()
		p.log.Error("endpoints file: an entry is left out", "file", p.config.File, "error", complaint)
	}
	if len(listed) == 0 {
		p.metrics.fileReads.WithLabelValues("empty").Inc()
		p.log.Error("endpoints file holds no endpoint that can be used: the endpoints stay as they are", "file", p.config.File)
		return data
	}
	own := listed[:0]
	for _, e := range listed {
		if slices.ContainsFunc(p.config.Endpoints, func(c Endpoint) bool { return c.ID == e.ID }) {
			p.metrics.fileRejected.Inc()
			p.log.Error("endpoints file: an entry is left out", "file", p.config.File,
				"error", "endpoint "+e.ID+" is already in the configuration")
			continue
		}
		own = append(own, e)
	}
	p.take(p.origins[fromFile], own)
	p.metrics.fileReads.WithLabelValues("ok").Inc()
	p.log.Info("endpoints file was read", "file", p.config.File, "endpoints", len(p.config.Endpoints)+len(own), "left_out", len(complaints))
	return data
}

func readAtMost(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, errors.New("it is over 16 MiB")
	}
	return data, nil
}
