package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spillway-llm/spillway/router/route"
)

// Bundle is a refit's result and the verdict on it, as a Store lists them.
type Bundle struct {
	Version   int64
	CreatedAt time.Time
	Accepted  bool
	Metadata  json.RawMessage
	Verdict   json.RawMessage
}

// Turn is one change of what an LLM is served with.
type Turn struct {
	Version     int64
	ValidatedAt time.Time
	Reason      string
}

// How many the page lists.
const (
	listedBundles = 50
	listedTurns   = 20
)

// judged is the page of bundles.
type judged struct {
	LLM     string
	LLMs    []route.LLMStatus
	Wrong   string // why there is no list; empty when there is
	Bundles []candidate
	Turns   []Turn
	A, B    int64 // the bundles compared; B 0: A alone is shown; A 0: none
	Rows    []compared
	Equal   int // numbers that both have and that are the same
	Base    string
}

// candidate is a bundle with what its verdict says in words.
type candidate struct {
	Bundle
	Served  bool
	Reasons []string // of a refusal
}

// compared is one number or word of two bundles' metadata and verdicts; B is
// empty where only one is shown.
type compared struct{ Path, A, B string }

func (s *Console) serveBundles(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	status := s.config.Status()
	p := &judged{LLMs: status.LLMs, LLM: shown(status.LLMs, q.Get("llm"))}
	p.A, _ = strconv.ParseInt(q.Get("a"), 10, 64) // 0, and so none, of what is no number
	p.B, _ = strconv.ParseInt(q.Get("b"), 10, 64)
	if s.config.Store == nil {
		p.Wrong = "This router has no store, so it knows no bundles but the one that is served."
		show(w, http.StatusOK, "bundles.html", p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if err := p.fill(ctx, s.config.Store); err != nil {
		p.Wrong = "The store does not answer; routing goes on without it. " + oneLine(err)
	}
	show(w, http.StatusOK, "bundles.html", p)
}

// fill reads the lists and compares what was asked for.
func (p *judged) fill(ctx context.Context, store Store) error {
	bundles, err := store.Bundles(ctx, p.LLM, listedBundles)
	if err != nil {
		return err
	}
	if p.Turns, err = store.Turns(ctx, p.LLM, listedTurns); err != nil {
		return err
	}
	for _, b := range bundles {
		c := candidate{Bundle: b, Served: len(p.Turns) > 0 && p.Turns[0].Version == b.Version}
		var words struct {
			Reasons []string `json:"reasons"`
		}
		if json.Unmarshal(b.Verdict, &words) == nil { // of another shape: it is shown as numbers alone
			c.Reasons = words.Reasons
		}
		p.Bundles = append(p.Bundles, c)
	}
	p.compare()
	return nil
}

// compare fills Rows from A, or from A and B where they differ.
func (p *judged) compare() {
	a, b := p.numbers(&p.A), p.numbers(&p.B)
	if p.A == 0 {
		a, p.A, p.B = b, p.B, 0
	}
	if p.B == 0 {
		for _, f := range a {
			p.Rows = append(p.Rows, compared{Path: f.path, A: f.text})
		}
		return
	}
	other := map[string]string{}
	for _, f := range b {
		other[f.path] = f.text
	}
	for _, f := range a {
		text, there := other[f.path]
		delete(other, f.path)
		switch {
		case !there:
			p.Rows = append(p.Rows, compared{f.path, f.text, dash})
		case text == f.text:
			p.Equal++
		default:
			p.Rows = append(p.Rows, compared{f.path, f.text, text})
		}
	}
	for _, f := range b {
		if _, alone := other[f.path]; alone {
			p.Rows = append(p.Rows, compared{f.path, dash, f.text})
		}
	}
}

// numbers are what is known of the bundle of that version, which becomes 0 when
// it is not listed.
func (p *judged) numbers(version *int64) []fact {
	i := slices.IndexFunc(p.Bundles, func(c candidate) bool { return c.Version == *version })
	if i < 0 {
		*version = 0
		return nil
	}
	b := &p.Bundles[i]
	return append(facts("verdict", b.Verdict), facts("metadata", b.Metadata)...)
}

// fact is one value of a JSON document and where it stands.
type fact struct{ path, text string }

// facts lists the values of a document, in its order. One that can't be read
// is a fact too.
func facts(path string, document json.RawMessage) []fact {
	if len(document) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	out, err := appendFacts(nil, path, d, mostNested)
	if err != nil {
		out = append(out, fact{path, "can't be read: " + oneLine(err)})
	}
	return out
}

// mostNested is how deep a document may be; verdicts are 4 deep.
const mostNested = 32

func appendFacts(out []fact, path string, d *json.Decoder, deeper int) ([]fact, error) {
	if deeper == 0 {
		return out, errors.New("it is nested too deep")
	}
	token, err := d.Token()
	if err != nil {
		return out, err
	}
	switch token {
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return out, err
			}
			if out, err = appendFacts(out, fmt.Sprint(path, ".", key), d, deeper-1); err != nil {
				return out, err
			}
		}
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if out, err = appendFacts(out, fmt.Sprintf("%s[%d]", path, i), d, deeper-1); err != nil {
				return out, err
			}
		}
	case nil:
		return append(out, fact{path, dash}), nil
	default:
		return append(out, fact{path, fmt.Sprint(token)}), nil
	}
	_, err = d.Token() // the closing bracket
	return out, err
}
