package route_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

func byTokens(c *route.Config) { c.Policy = policy.TokenLoad }

// What an engine reports of its cache corrects what is believed of it.
func TestCachedTokensThatAreReportedCorrectTheIndex(t *testing.T) {
	for what, c := range map[string]struct {
		reported float64
		then     float64 // believed of the next request
	}{
		"as believed":       {960, 960},
		"a little less":     {800, 960},
		"half":              {480, 960},
		"far fewer":         {200, 192}, // 3 blocks of 64
		"nothing":           {0, 0},
		"it does not say":   {feature.Unknown, 960},
		"a nonsense number": {-1, 960},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 1, byTokens)
			ticket := w.begin(t, query("p"))
			ticket.FirstToken(time.Now())
			ticket.End(served(1000, 10))
			again := w.begin(t, query("p"))
			if got := w.cached(t, again); got != 960 {
				t.Fatalf("%v tokens are believed cached, want 960", got)
			}
			end := served(1000, 10)
			end.CachedTokens = c.reported
			again.End(end)
			if got := w.cached(t, w.begin(t, query("p"))); got != c.then {
				t.Errorf("%v tokens are believed after the report, want %v", got, c.then)
			}
		})
	}
}

// In a burst the prefix is claimed long before it is computed: that the engine
// did not have it then says nothing.
func TestMissInABurstIsNoEvidence(t *testing.T) {
	w := newWorld(t, 1, byTokens)
	first, second := w.begin(t, query("p")), w.begin(t, query("p"))
	first.FirstToken(time.Now())
	end := served(1000, 10)
	end.CachedTokens = 0
	second.End(end)
	if got := w.cached(t, w.begin(t, query("p"))); got != 960 {
		t.Errorf("%v tokens are believed, want 960", got)
	}
	first.End(served(1000, 10))
}

// What an endpoint refused, or never got, it has not computed: the claim that was
// made at the decision is withdrawn, as far as nobody else made it.
func TestRefusedRequestsLeaveNoPrefix(t *testing.T) {
	refused := ended(feature.UpstreamError, 400)
	for what, c := range map[string]struct {
		do   func(w *world, first *route.Ticket)
		then float64 // believed of the next request
	}{
		"refused":                  {func(_ *world, first *route.Ticket) { first.End(refused) }, 0},
		"overloaded":               {func(_ *world, first *route.Ticket) { first.End(ended(feature.UpstreamError, 503)) }, 0},
		"the client left":          {func(_ *world, first *route.Ticket) { first.End(ended(feature.ClientAbort, 499)) }, 960},
		"late":                     {func(_ *world, first *route.Ticket) { first.End(ended(feature.UpstreamTimeout, 504)) }, 960},
		"an error in the answer":   {func(_ *world, first *route.Ticket) { first.End(ended(feature.UpstreamError, 200)) }, 960},
		"broken off after a token": {func(_ *world, first *route.Ticket) { first.FirstToken(time.Now()); first.End(refused) }, 960},
		"claimed by another too": {func(w *world, first *route.Ticket) {
			w.begin(t, query("p"))
			first.End(refused)
		}, 960},
		"served before": {func(w *world, first *route.Ticket) {
			first.FirstToken(time.Now())
			first.End(served(1000, 10))
			w.begin(t, query("p")).End(refused)
		}, 960},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 1, byTokens)
			c.do(w, w.begin(t, query("p")))
			if got := w.cached(t, w.begin(t, query("p"))); got != c.then {
				t.Errorf("%v tokens are believed cached, want %v", got, c.then)
			}
		})
	}
}

// A prompt that no engine could hold pushes nothing out of the index.
func TestPromptsThatCannotBeHeldAreNotClaimed(t *testing.T) {
	w := newWorld(t, 1, byTokens)
	w.fleet.only(id(0), func(e *pool.State) { e.KVCapacityTokens = 4096 })
	first := w.begin(t, query("p"))
	first.FirstToken(time.Now())
	first.End(served(1000, 10))
	long := query("")
	text := bytes.Repeat([]byte("far too long "), 4096)
	long.Prompt, long.PromptBytes = spans(text), len(text)
	for range 2 { // the end of the first says nothing of the second
		ticket := w.begin(t, long)
		if got := w.cached(t, ticket); got != 0 {
			t.Errorf("%v tokens are believed of a prompt that can't be held", got)
		}
		ticket.End(ended(feature.UpstreamError, 400))
	}
	w.begin(t, long).End(served(13_312, 10)) // if it could after all
	last := w.begin(t, query("p"))
	if got := w.cached(t, last); got != 960 {
		t.Errorf("%v tokens are believed cached, want 960", got)
	}
	last.End(served(1000, 10))
	w.idle(t)
}

// The same of each endpoint that a moved request was at.
func TestMovedRequestsLeaveNoPrefixWhereTheyWereRefused(t *testing.T) {
	for _, how := range []feature.Status{feature.OK, feature.UpstreamError} {
		w := newWorld(t, 2, byTokens)
		ticket := w.begin(t, query("p"))
		if !ticket.Retry(route.Unreachable) {
			t.Fatal("the request did not move")
		}
		second, want := ticket.Endpoint(), 0.0
		if how == feature.OK {
			want = 960
			ticket.End(served(1000, 10))
		} else {
			ticket.End(ended(how, 503))
		}
		d := w.memory.decision(w.begin(t, query("p")))
		next, err := policy.Decode(d.States)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range d.Candidates {
			held := 0.0
			if c.Endpoint == second {
				held = want
			}
			if got := next.Candidates[i].CachedTokens; got != held {
				t.Errorf("%s: %v tokens are believed cached at %s, want %v", how, got, c.Endpoint, held)
			}
		}
	}
}

// The report of one life says nothing of the next.
func TestReportOfAnEarlierLifeCorrectsNothing(t *testing.T) {
	w := newWorld(t, 1, byTokens)
	begun := func() *route.Ticket {
		ticket := w.begin(t, query("p"))
		ticket.FirstToken(time.Now())
		return ticket
	}
	begun()
	old := begun()
	w.fleet.only(id(0), func(e *pool.State) { e.Incarnation = 99 })
	begun()
	end := served(1000, 10)
	end.CachedTokens = 0
	old.End(end)
	if got := w.cached(t, begun()); got != 960 {
		t.Errorf("%v tokens are believed, want 960", got)
	}
}

// An image counts for its tokens in the prefix however long its bytes are, and
// tells prompts apart.
func TestMediaCountForTheirTokensInThePrefix(t *testing.T) {
	for _, size := range []int{20, 300_000} {
		w := newWorld(t, 1, byTokens)
		photo := func(of string) *route.Query {
			q := query("")
			q.Prompt = pieces(
				route.Piece{Bytes: bytes.Repeat([]byte("s"), 1024)},
				route.Piece{Bytes: append(make([]byte, size), of...), Tokens: 800},
				route.Piece{Bytes: make([]byte, 1024)},
			)
			q.PromptBytes, q.PromptTokens = 2048, 800
			return q
		}
		w.begin(t, photo("a cat"))
		for of, want := range map[string]float64{"a cat": 1280, "a dog": 256} { // 512 + 800 in blocks of 64
			ticket := w.begin(t, photo(of))
			if d := w.memory.decision(ticket); d.PromptTokens != 1312 {
				t.Errorf("the prompt has %v tokens, want 1312", d.PromptTokens)
			}
			if got := w.cached(t, ticket); got != want {
				t.Errorf("%s of %d bytes: %v tokens are held, want %v", of, size, got, want)
			}
		}
	}
}

// Prompts of token ids share the ids they have in common.
func TestTokenIDsCountOneByOneInThePrefix(t *testing.T) {
	w := newWorld(t, 1, byTokens)
	ids := func(n, from int) *route.Query {
		q := tokens(n)
		q.Prompt = func(yield func(route.Piece) bool) {
			for i := range n {
				id := 100_000 + i
				if i >= from {
					id++
				}
				if !yield(route.Piece{Bytes: fmt.Append(nil, id), Tokens: 1}) {
					return
				}
			}
		}
		return q
	}
	w.begin(t, ids(1000, 1000))
	if got := w.cached(t, w.begin(t, ids(2000, 640))); got != 640 {
		t.Errorf("%v tokens are held of a prompt that shares 640", got)
	}
	if got := w.cached(t, w.begin(t, ids(1000, 1000))); got != 960 {
		t.Errorf("%v tokens are held of the same prompt, want 960", got)
	}
}

// A cache is as many blocks as the bytes of a token make it.
func TestLearnedTokensPerByteResizeTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, byTokens)
		defer w.run()()
		w.fleet.only(id(0), func(e *pool.State) { e.KVCapacityTokens = 4096 })
		pass(1100 * time.Millisecond)
		held := func() float64 { // of 4 prompts of 15 blocks each
			sum := 0.0
			for range 2 {
				sum = 0
				for i := range 4 {
					ticket := w.begin(t, query(fmt.Sprint("prompt ", i)))
					ticket.End(ended(feature.ClientAbort, 0))
					sum += w.cached(t, ticket)
				}
			}
			return sum
		}
		if got := held(); got != 4*960 { // 64 blocks of 64 tokens
			t.Errorf("%v tokens are held, want all of 3,840", got)
		}
		for range 300 {
			w.begin(t, query("x")).End(served(2000, 10)) // half a token a byte
		}
		pass(2 * time.Second)
		if got := held(); got != 0 { // 32 blocks of 128 tokens: each prompt has pushed the first out
			t.Errorf("%v tokens are held of a cache that is half as long in bytes, want none", got)
		}
		image := tokens(0)
		image.Prompt, image.PromptTokens = pieces(route.Piece{Bytes: []byte("i"), Tokens: 1280}), 1280
		w.begin(t, image)
		if got := w.cached(t, w.begin(t, image)); got < 1150 || got > 1280 {
			t.Errorf("%v tokens of an image of 1,280 are held", got)
		}
	})
}

// A conversation goes on with the answer that its endpoint has generated: as
// much of it is believed cached as engines report to have kept.
func TestAnswersAreBelievedAsFarAsEnginesKeepThem(t *testing.T) {
	for what, c := range map[string]struct {
		reported    float64 // of the 240 tokens behind the 15 blocks that both turns have
		least, most float64 // believed in the end
	}{
		"all of it":       {240, 1150, 1200},
		"half":            {120, 1060, 1080},
		"nothing":         {0, 960, 960},
		"it does not say": {feature.Unknown, 960, 960},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 1, byTokens)
			var last float64
			for i := range 60 {
				text := fmt.Sprintf("talk %d", i)
				first := w.begin(t, query(text))
				first.FirstToken(time.Now())
				first.End(served(1000, 200))
				second := query(text)
				prompt := make([]byte, 5600)
				copy(prompt, text)
				second.Prompt, second.PromptBytes = spans(prompt), len(prompt)
				ticket := w.begin(t, second)
				last = w.cached(t, ticket)
				ticket.FirstToken(time.Now())
				end := served(1400, 10)
				end.CachedTokens = 960 + c.reported
				ticket.End(end)
			}
			if !(last >= c.least && last <= c.most) {
				t.Errorf("%v tokens are believed cached, want %v to %v", last, c.least, c.most)
			}
		})
	}
}
