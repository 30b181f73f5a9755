package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// FaultKind names a way an endpoint can misbehave.
type FaultKind string

const (
	None   FaultKind = "none"
	Slow   FaultKind = "slow"   // steps take Factor times as long
	Error  FaultKind = "error"  // new requests are answered with Status
	Hang   FaultKind = "hang"   // requests are accepted and make no progress; metrics stand still, health is fine
	Reset  FaultKind = "reset"  // connections are reset once their first token was sent, or would have been
	Refuse FaultKind = "refuse" // the process is gone: connections break and new ones are refused
)

// Fault is how an endpoint misbehaves until another fault is set. Ending
// Refuse starts a new incarnation: an empty cache, new counters and a new
// start time.
type Fault struct {
	Kind   FaultKind `json:"kind"`
	Factor float64   `json:"factor,omitempty"` // of Slow; above 0
	Status int       `json:"status,omitempty"` // of Error, 400 to 599; 0 means 500
}

func (f Fault) check() (Fault, error) {
	switch f.Kind {
	case None, Hang, Reset, Refuse:
	case Slow:
		if !(f.Factor > 0 && f.Factor <= 1e6) {
			return f, fmt.Errorf("factor is %v: want above 0 and at most 1e6", f.Factor)
		}
	case Error:
		if f.Status == 0 {
			f.Status = http.StatusInternalServerError
		}
		if f.Status < 400 || f.Status > 599 {
			return f, fmt.Errorf("status is %d: want 400 to 599", f.Status)
		}
	default:
		return f, fmt.Errorf("kind is %q: want none, slow, error, hang, reset or refuse", f.Kind)
	}
	return f, nil
}

// Fault returns what was last set.
func (e *Endpoint) Fault() Fault { return *e.fault.Load() }

// SetFault makes the endpoint misbehave from now on; kind None ends it. When
// it returns the fault is in force. The error is a fault that makes no sense,
// or a port that could not be bound again.
func (e *Endpoint) SetFault(f Fault) error { return e.setFault(f, func() {}) }

// setFault calls beforeEnd when new connections are refused already and
// existing ones are still open.
func (e *Endpoint) setFault(f Fault, beforeEnd func()) error {
	f, err := f.check()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.fault.Swap(&f)
	e.fleet.cfg.Logger.Info("fault set", "endpoint", e.index, "url", e.URL(), "kind", f.Kind)
	switch {
	case f.Kind == Refuse:
		if e.ln != nil {
			e.ln.Close()
			e.ln = nil
		}
		if e.life != nil {
			e.life.ln.Close()
			beforeEnd()
			e.end()
		}
	case before.Kind == Refuse && e.ctx != nil:
		if err := e.begin(); err != nil {
			e.fault.Store(before)
			return err
		}
	case e.life != nil:
		e.life.loop.do(func() { e.life.loop.apply(f) })
	}
	return nil
}

// target is the endpoint that an admin request is about.
func (l *life) target(r *http.Request) (*Endpoint, error) {
	name := r.URL.Query().Get("endpoint")
	if name == "" {
		return l.endpoint, nil
	}
	all := l.endpoint.fleet.endpoints
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(all) {
		return nil, fmt.Errorf("endpoint is %q: want a number from 0 to %d", name, len(all)-1)
	}
	return all[i], nil
}

func (l *life) showFault(w http.ResponseWriter, r *http.Request) {
	e, err := l.target(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, e.Fault())
}

func (l *life) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		writeError(w, http.StatusBadRequest, "fault: "+err.Error())
		return
	}
	l.changeFault(w, r, f)
}

func (l *life) deleteFault(w http.ResponseWriter, r *http.Request) {
	l.changeFault(w, r, Fault{Kind: None})
}

func (l *life) changeFault(w http.ResponseWriter, r *http.Request, f Fault) {
	e, err := l.target(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	answered := false
	answer := func() {
		if answered {
			return
		}
		answered = true
		w.Header().Set("Connection", "close")
		writeJSON(w, http.StatusOK, e.Fault())
		http.NewResponseController(w).Flush()
	}
	// An endpoint that is about to refuse cannot answer afterwards.
	if err := e.setFault(f, answer); err != nil {
		writeError(w, http.StatusBadRequest, "fault: "+err.Error())
		return
	}
	answer()
}
