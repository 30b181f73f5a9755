package fleet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// refusedPause is how long a client whose request was refused waits before it
// goes on: clients back off, and a run could not end otherwise.
const refusedPause = time.Second

// longestPause is the longest that a client which was shed is told to wait, as
// by route.
const longestPause = time.Minute

// send decides where a client's request goes and hands it over.
func (w *world) send(who *client, turn int) error {
	t := &who.session.Turns[turn]
	w.calls++
	w.sent++
	c := w.fresh()
	block := w.config.BlockTokens
	c.id, c.client, c.turn, c.at, c.open = w.calls, who, turn, w.now, true
	c.chain = w.content.chain(c.chain[:0], t, (t.PromptTokens+t.OutputTokens)/block, mix(w.calls))
	n := t.PromptTokens / block
	c.request = Request{
		ID:        c.id,
		Prompt:    Prompt{Tokens: t.PromptTokens, Chain: c.chain[:n:n]},
		MaxTokens: t.OutputTokens,
		Class:     who.session.Class,
		output:    Output{Tokens: t.OutputTokens, Chain: c.chain[n:]},
	}
	c.alone = w.alone(t.PromptTokens, t.OutputTokens)
	c.replica = w.nextReplica()
	if w.config.Router.Connections == PerRequest && c.replica.hangs(w.time(w.now)) {
		w.park(c)
		return nil
	}
	return w.dispatch(c)
}

// dispatch decides where a call goes and hands it over.
func (w *world) dispatch(c *call) error {
	who := c.client
	c.place = len(w.live)
	w.live = append(w.live, c)
	q := query{promptTokens: c.request.Prompt.Tokens, chain: c.request.Prompt.Chain, asks: w.config.Router.Objectives[who.session.Class]}
	stuck := who.stuck
	if w.config.Router.Connections == PerWorker {
		stuck = who.worker.connect(w.now)
	}
	c.replica.forced = w.force(c)
	endpoint, err := c.replica.decide(&q, c, stuck, w.time(w.now))
	if err != nil {
		return err
	}
	c.decision = w.decided(c)
	if endpoint < 0 {
		w.turnedAway(c)
		return nil
	}
	c.endpoint, c.request.tag = endpoint, int32(c.replica.number)<<replicaShift|c.ticket.stream
	w.note(c)
	switch w.config.Router.Connections {
	case PerSession, PerClient:
		who.stuck = endpoint
	}
	e := w.endpoints[endpoint]
	c.rank = e.rank()
	err = e.ranks[c.rank].Submit(w.now, &c.request)
	switch {
	case errors.Is(err, ErrTooLong):
		w.close(c, feature.UpstreamError)
		w.wakeAt(who, w.now+refusedPause)
		return nil
	case err != nil:
		return err
	}
	w.reschedule(w.unit(c))
	if patience := w.config.Plan.Timeout; patience > 0 {
		w.deadlines = append(w.deadlines, deadline{w.now + patience, c.id, c})
		if len(w.deadlines) > 2*len(w.live)+64 { // most have ended long before
			w.deadlines = slices.DeleteFunc(w.deadlines, deadline.over)
		}
		w.agenda.set(w.actorTimeout, w.deadlines[0].at)
	}
	return nil
}

// over reports whether the request of d has ended.
func (d deadline) over() bool { return !d.call.open || d.call.id != d.id }

// stream is how far the answer to c has come.
func (c *call) stream() *stream { return &c.ticket.target.streams.all[c.ticket.stream] }

// fresh is a call to fill in.
func (w *world) fresh() *call {
	if n := len(w.free); n > 0 {
		c := w.free[n-1]
		w.free = w.free[:n-1]
		*c = call{chain: c.chain}
		return c
	}
	return &call{}
}

// unit is the number of the engine that has a call.
func (w *world) unit(c *call) int {
	n := c.rank
	for _, e := range w.endpoints[:c.endpoint] {
		n += len(e.ranks)
	}
	return n
}

func (w *world) reschedule(unit int) {
	at, ok := w.units[unit].engine.NextEvent()
	if !ok {
		at = never
	}
	w.agenda.set(unit, at)
}

// step lets an engine do what is due, and the router and the clients see it.
func (w *world) step(unit int) error {
	u := w.units[unit]
	w.events = u.engine.advance(w.now, w.events)
	for i := range w.events {
		ev := &w.events[i]
		r := w.replicas[ev.tag>>replicaShift]
		s := &r.targets[u.endpoint].streams.all[ev.tag&(1<<replicaShift-1)]
		generated := int32(ev.Generated)
		switch {
		case ev.Kind == Finished:
			c := s.call
			w.close(c, feature.OK)
			w.free = append(w.free, c)
			if k := c.client.worker; k != nil {
				k.release(c.endpoint, w.now)
			}
			if err := w.answered(c.client); err != nil {
				return err
			}
			continue
		case s.generated == 0:
			s.call.first, s.call.cached = ev.At, ev.Cached
			r.firstToken(s, ev.At)
		default:
			r.tokens(s, generated-s.generated, ev.At)
		}
		s.generated = generated
	}
	w.reschedule(unit)
	return nil
}

// close ends a call for the router and the records.
func (w *world) close(c *call, status feature.Status) {
	s := &c.client.session
	seen := c.stream()
	generated := int(seen.generated)
	o := Outcome{
		Session: s.Index, Turn: c.turn, Class: s.Class, Endpoint: c.endpoint, Status: status, At: c.at,
		E2E:          w.now - c.at,
		PromptTokens: c.request.Prompt.Tokens, MatchedTokens: int(c.ticket.cached), CachedTokens: c.cached, OutputTokens: generated,
		Alone: c.alone, Policy: c.ticket.policy,
	}
	ttft, tpot := feature.Seconds(feature.Unknown), feature.Seconds(feature.Unknown)
	if generated > 0 {
		o.TTFT = c.first - c.at
		ttft = feature.SecondsOf(epoch.Add(c.first).Sub(c.ticket.decided))
	}
	if generated > 1 {
		o.TPOT = (seen.last - c.first) / time.Duration(generated-1)
		tpot = feature.SecondsOf(o.TPOT)
	}
	c.replica.end(&c.ticket, answer{status == feature.OK, ttft, tpot, generated, c.cached}, w.time(w.now))
	w.leave(c, o)
}

// turnedAway ends a call that the router shed. Its client comes back when it
// was told to.
func (w *world) turnedAway(c *call) {
	s := &c.client.session
	w.leave(c, Outcome{
		Session: s.Index, Turn: c.turn, Class: s.Class, Endpoint: -1, Status: feature.Shed, At: c.at,
		PromptTokens: c.request.Prompt.Tokens, Alone: c.alone,
	})
	after := c.replica.choice.RetryAfter.Duration()
	w.wakeAt(c.client, w.now+min(longestPause, max(refusedPause, after)))
	w.free = append(w.free, c)
}

// leave takes a call that has ended off the world and records its outcome.
func (w *world) leave(c *call, o Outcome) {
	c.open = false
	last := len(w.live) - 1
	w.live[c.place], w.live[last].place = w.live[last], c.place
	w.live[last] = nil
	w.live = w.live[:last]
	w.ended++
	w.last = w.now
	w.forked(c)
	w.record(c, &o)
	w.concluded(c, &o)
	if w.config.Sink != nil {
		w.config.Sink(o)
	} else {
		w.result.Requests = append(w.result.Requests, o)
	}
}

// giveUp ends the calls whose clients have waited long enough.
func (w *world) giveUp() error {
	due := 0
	for ; due < len(w.deadlines) && w.deadlines[due].at <= w.now; due++ {
		d := w.deadlines[due]
		if d.over() {
			continue
		}
		c, who := d.call, d.call.client
		w.units[w.unit(c)].engine.Cancel(c.request.ID)
		w.close(c, feature.ClientAbort) // and never used again: the engine may still hold it
		w.reschedule(w.unit(c))
		w.late = append(w.late, who)
	}
	w.deadlines = slices.Delete(w.deadlines, 0, due)
	at := never
	if len(w.deadlines) > 0 {
		at = w.deadlines[0].at
	}
	w.agenda.set(w.actorTimeout, at)
	for _, who := range w.late {
		if err := w.answered(who); err != nil {
			return err
		}
	}
	w.late = w.late[:0]
	return nil
}

// scrapeActor is the number of the actor that lets a router scrape an endpoint.
func (w *world) scrapeActor(replica, endpoint int) int {
	return w.actorScrape + replica*len(w.endpoints) + endpoint
}

// scrape lets a router ask an endpoint for its numbers, or take in those asked
// for.
func (w *world) scrape(replica, i int) {
	r, actor := w.replicas[replica], w.scrapeActor(replica, i)
	e := &r.scrapers[i]
	if !e.asked {
		e.asked, e.askedAt, e.answer = true, w.now, w.endpoints[i].metrics((*Engine).Metrics)
		if delay := w.config.Router.ScrapeDelay; delay > 0 && w.now > 0 {
			w.agenda.set(actor, w.now+delay)
			return
		}
	}
	e.asked = false
	r.scraped(i, e.answer, w.endpoints[i].kvTokens, w.time(e.askedAt))
	interval := float64(w.config.Router.ScrapeInterval)
	switch pause := interval * (1 + scrapeJitter*(2*w.jitter.Float64()-1)); {
	case e.askedAt == 0: // from here on every endpoint at its own time
		w.agenda.set(actor, time.Duration(interval*w.jitter.Float64())+1)
	default:
		w.agenda.set(actor, max(w.now, e.askedAt+time.Duration(pause)))
	}
}

// nextChange is when the next engine slows or joins, after now.
func (w *world) nextChange() time.Duration {
	at := never
	for _, e := range w.endpoints {
		for _, when := range []time.Duration{e.spec.SlowFrom, e.spec.JoinsAt} {
			if when > w.now {
				at = min(at, when)
			}
		}
	}
	return at
}

// change slows the engines whose time it is, and lets those join.
func (w *world) change() {
	for _, e := range w.endpoints {
		if e.spec.SlowFrom == w.now {
			e.slow(e.spec.SlowFactor)
		}
	}
	for before := w.meet(); before < w.met(); before++ {
		for _, r := range w.replicas {
			if !r.down {
				w.scrape(r.number, before)
			}
		}
	}
	w.agenda.set(w.actorChange, w.nextChange())
}

// meet makes the engines known whose time it is, and returns how many were
// before.
func (w *world) meet() int {
	before := w.met()
	for i := before; i < len(w.endpoints) && w.endpoints[i].spec.JoinsAt <= w.now; i++ {
		for _, r := range w.replicas {
			w.introduce(r, i)
		}
	}
	return before
}

// met is how many engines the routers know.
func (w *world) met() int { return len(w.replicas[0].targets) }

// introduce makes an engine known to a router.
func (w *world) introduce(r *replica, engine int) {
	spec := &w.endpoints[engine].spec
	r.meet(fmt.Sprintf("engine-%05d", engine), spec.Class, spec.Profile)
	if w.now == 0 {
		w.told(r, engine, w.time(w.now))
	}
}

// chosen is how many requests an endpoint was sent.
func (w *world) chosen(endpoint int) (n int) {
	if endpoint >= w.met() {
		return 0
	}
	for _, r := range w.replicas {
		n += r.targets[endpoint].chosen
	}
	return n
}

// observe shows the world to the observer.
func (w *world) observe() {
	w.sample.At = w.now
	now := w.time(w.now)
	for i, e := range w.endpoints {
		m := e.metrics((*Engine).current)
		s := EndpointSample{Waiting: m.Waiting, Running: m.Running, KVUsed: m.KVUsed, Chosen: w.chosen(i), Speed: 1}
		if i < w.met() {
			s.Speed = w.replicas[0].targets[i].speed.Factor(now)
			for _, r := range w.replicas {
				s.InFlight += r.targets[i].streams.open()
			}
		}
		w.sample.Endpoints[i] = s
	}
	w.config.Observer(&w.sample)
}

// alone is how long a request takes on an idle engine of the first kind that
// has nothing cached, by the step model.
func (w *world) alone(prompt, output int) time.Duration {
	p := &w.endpoints[0].spec.Profile
	c, n := p.Coefficients, float64(prompt)
	steps := float64((prompt + p.MaxBatchedTokens - 1) / p.MaxBatchedTokens)
	more := float64(output - 1)
	seconds := steps*c.A + c.B*n + c.C*n*n/2 + more*(c.A+c.D) + c.E*more*(n+float64(output)/2)
	return time.Duration(seconds * float64(time.Second))
}
