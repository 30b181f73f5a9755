package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spillway-llm/spillway/internal/explain"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// explained is the page of one decision.
type explained struct {
	explain.Decision
	Wrong string // why there is nothing to show; empty when there is
	Terms []priced
	Base  string
}

// priced is a candidate with its cost drawn as a bar.
type priced struct {
	*explain.Candidate
	Chosen bool
	Bar    []piece
}

// piece is one term of a cost as a part of a bar, in percent of the dearest.
type piece struct {
	Class    int // of the term, in the order of termNames
	From, To float64
}

// Width of a piece.
func (p piece) Width() float64 { return p.To - p.From }

// term is one part of a cost.
type term struct {
	Name string
	of   func(*policy.Terms) feature.Seconds
}

// terms are the parts of a cost, as people read them, in the order of bars.
var terms = []term{
	{"TTFT", func(t *policy.Terms) feature.Seconds { return t.TTFT }},
	{"impatience", func(t *policy.Terms) feature.Seconds { return t.Impatience }},
	{"output", func(t *policy.Terms) feature.Seconds { return t.Output }},
	{"eviction", func(t *policy.Terms) feature.Seconds { return t.Eviction }},
	{"headroom", func(t *policy.Terms) feature.Seconds { return t.Headroom }},
	{"crowds", func(t *policy.Terms) feature.Seconds { return t.Crowding }},
	{"holds up decoding", func(t *policy.Terms) feature.Seconds { return t.Prefill }},
	{"holds up queue", func(t *policy.Terms) feature.Seconds { return t.Queue }},
	{"slows decoding", func(t *policy.Terms) feature.Seconds { return t.Decode }},
}

// Names are what the columns of the terms are called.
func (e *explained) Names() []string {
	var names []string
	for _, t := range terms {
		names = append(names, t.Name)
	}
	return names
}

// Values are the candidate's terms, in the order of Names.
func (p *priced) Values() []feature.Seconds {
	var values []feature.Seconds
	for _, t := range terms {
		values = append(values, t.of(p.Candidate.Terms))
	}
	return values
}

func (s *Console) serveDecision(w http.ResponseWriter, r *http.Request) {
	id, err := feature.ParseID(r.PathValue("id"))
	if err != nil {
		show(w, http.StatusBadRequest, "decision.html", &explained{Wrong: oneLine(err), Base: "../"})
		return
	}
	d, outcomes, err := s.decision(r.Context(), id)
	if err != nil {
		status := http.StatusBadGateway
		if errors.Is(err, ErrNotFound) {
			status = http.StatusNotFound
		}
		show(w, status, "decision.html", &explained{Wrong: oneLine(err), Base: "../"})
		return
	}
	e := &explained{Decision: explain.Of(&d, outcomes), Base: "../"}
	slices.SortStableFunc(e.Candidates, func(a, b explain.Candidate) int { return cmp.Compare(b.Probability, a.Probability) })
	e.price()
	show(w, http.StatusOK, "decision.html", e)
}

// decision looks into the ring and then into the store.
func (s *Console) decision(ctx context.Context, id feature.ID) (feature.Decision, []feature.Outcome, error) {
	if k, ok := s.config.Recent.find(id); ok {
		return k.decision, k.outcomes[:k.ended], nil
	}
	if s.config.Store == nil {
		return feature.Decision{}, nil, fmt.Errorf("decision %s is no longer in this router's memory, and it has no store: %w", id, ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d, outcomes, err := s.config.Store.Decision(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		err = fmt.Errorf("decision %s is in neither this router's memory nor the store; rows are written a moment after they are made: %w", id, ErrNotFound)
	case err != nil:
		err = fmt.Errorf("decision %s is no longer in this router's memory, and the store does not answer: %w", id, err)
	}
	return d, outcomes, err
}

// price draws the costs of the candidates whose terms are known.
func (e *explained) price() {
	dearest := 0.0
	for i := range e.Candidates {
		if t := e.Candidates[i].Terms; t != nil {
			dearest = max(dearest, float64(t.Cost()))
		}
	}
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Terms == nil {
			continue
		}
		p := priced{Candidate: c, Chosen: c.Endpoint == e.Chosen}
		at := 0.0
		for class, t := range terms {
			if v := float64(t.of(c.Terms)); v > 0 && dearest > 0 {
				to := at + 100*v/dearest
				p.Bar = append(p.Bar, piece{class, at, to})
				at = to
			}
		}
		e.Terms = append(e.Terms, p)
	}
}
