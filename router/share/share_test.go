package share_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
	"github.com/spillway-llm/spillway/router/share"
)

// bubble runs a story in virtual time.
func bubble(t *testing.T, story func(t *testing.T, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { story(t, newNetwork()) })
}

// pass lets virtual time go by.
func pass(d time.Duration) { <-time.After(d) }

// soon is longer than a word takes.
func soon() { pass(100 * time.Millisecond); synctest.Wait() }

// pair is two routers that follow each other.
func pair(t *testing.T, n *network) (a, b *member) {
	a = join(t, n, 1, newFleet(1, "x", "y", "z"), nil, 2)
	b = join(t, n, 2, newFleet(11, "x", "y", "z"), nil, 1)
	soon()
	if a.peer(2).State != "connected" || b.peer(1).State != "connected" || b.peer(1).Router != "r1" {
		t.Fatalf("after the beginning: %+v, %+v", a.node.Status(), b.node.Status())
	}
	return a, b
}

// What one router has in flight the other sees, apart from its own, as far as
// it has come, until it ends.
func TestInFlightIsShared(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, b := pair(t, n)
		ticket := a.begin(prompt("first"))
		soon()
		at := ticket.Endpoint()
		if own, elsewhere := b.counts(at); own != 0 || elsewhere != 1 {
			t.Errorf("b sees %d own and %d others at %s", own, elsewhere, at)
		}
		if own, elsewhere := a.counts(at); own != 1 || elsewhere != 0 {
			t.Errorf("a sees %d own and %d others", own, elsewhere)
		}
		if got := b.peer(1); got.InFlight != 1 || !(got.Age < 1) {
			t.Errorf("b knows of a: %+v", got)
		}
		prefill := func() float64 {
			for _, e := range b.router.Status().Endpoints {
				if e.ID == at {
					return float64(e.PrefillTokens)
				}
			}
			return -1
		}
		if prefill() < 5000 {
			t.Errorf("b sees %v tokens to prefill", prefill())
		}
		ticket.FirstToken(time.Now())
		soon()
		if prefill() != 0 {
			t.Errorf("b sees %v tokens to prefill after the first token", prefill())
		}
		end(ticket)
		soon()
		if _, elsewhere := b.totals(); elsewhere != 0 {
			t.Errorf("b sees %d after the end", elsewhere)
		}
	})
}

// Where one router sent a prompt the other finds it, and both spread what comes
// at once.
func TestPrefixesAreShared(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, b := pair(t, n)
		first := a.begin(prompt("shared"))
		soon()
		second := b.begin(prompt("shared") + " and a question")
		if second.Endpoint() != first.Endpoint() {
			t.Errorf("the same prompt went to %s and %s", first.Endpoint(), second.Endpoint())
		}
		other := b.begin(prompt("another"))
		if other.Endpoint() == first.Endpoint() {
			t.Error("a prompt that nobody knows went to the busy endpoint")
		}
		for _, ticket := range []*route.Ticket{first, second, other} {
			end(ticket)
		}
	})
}

// Why a peer is not heard is said with its silence.
func TestSilenceSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		b := join(t, n, 2, newFleet(1, "x"), func(c *share.Config) {
			c.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody there speaks gRPC") }
		}, 1)
		pass(4 * time.Second)
		if !b.logged("a peer is silent") || !b.logged("nobody there speaks gRPC") {
			t.Error("it is not said why")
		}
	})
}

// A peer that is gone is forgotten after the bound, said so in every decision,
// and known again when it is back. Nothing is lost or counted twice.
func TestSilentPeerIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, b := pair(t, n)
		ticket := a.begin(prompt("long"))
		soon()
		n.sever(a.address)
		pass(2 * time.Second)
		if _, elsewhere := b.totals(); elsewhere != 1 {
			t.Errorf("%d requests of a peer that was just cut off", elsewhere)
		}
		pass(1500 * time.Millisecond)
		if _, elsewhere := b.totals(); elsewhere != 0 || b.peer(1).State != "silent" {
			t.Errorf("%d requests of a silent peer, %+v", elsewhere, b.peer(1))
		}
		if !b.logged("a peer is silent") || b.metric("spillway_router_peer_forgotten_requests_total") != 1 || b.metric("spillway_router_peers", "silent") != 1 {
			t.Error("the silence is not said")
		}
		lonely := b.begin(prompt("lonely"))
		if !strings.Contains(lonely.Header(), "without word of "+a.address) {
			t.Errorf("a decision without the peer: %s", lonely.Header())
		}
		end(lonely)

		n.mend(a.address)
		pass(2 * time.Second)
		if _, elsewhere := b.totals(); elsewhere != 1 || b.peer(1).State != "connected" {
			t.Errorf("%d requests of a peer that is back, %+v", elsewhere, b.peer(1))
		}
		again := b.begin(prompt("lonely"))
		if strings.Contains(again.Header(), "without word") {
			t.Errorf("a decision with the peer back: %s", again.Header())
		}
		end(again)
		end(ticket)
		soon()
		if _, elsewhere := b.totals(); elsewhere != 0 {
			t.Errorf("%d requests after the end", elsewhere)
		}
	})
}

// What ends while nobody listens has ended when the stream is back.
func TestEndsUnheardAreMadeUpFor(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, b := pair(t, n)
		first, second := a.begin(prompt("one")), a.begin(prompt("two"))
		soon()
		n.sever(a.address)
		soon()
		end(first)
		third := a.begin(prompt("three"))
		n.mend(a.address)
		pass(2 * time.Second)
		if _, elsewhere := b.totals(); elsewhere != 2 || b.peer(1).InFlight != 2 {
			t.Errorf("%d requests, want the 2 that are open", elsewhere)
		}
		end(second)
		end(third)
		soon()
		if _, elsewhere := b.totals(); elsewhere != 0 {
			t.Errorf("%d requests after the end", elsewhere)
		}
	})
}

// A router that begins anew, under the same address, leaves nothing of its
// former life, and is told what is cached.
func TestRestartedRouterIsToldAndForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, b := pair(t, n)
		lost := a.begin(prompt("known"))
		soon()
		where := lost.Endpoint()
		a.stop()
		again := join(t, n, 1, newFleet(100, "x", "y", "z"), nil, 2)
		pass(3 * time.Second)
		if _, elsewhere := b.totals(); elsewhere != 0 {
			t.Errorf("%d requests of a former life", elsewhere)
		}
		if again.metric("spillway_router_peer_restored_blocks_total", "peer") < 100 || !again.logged("a peer has told what is believed to be cached") {
			t.Errorf("%v blocks were restored", again.metric("spillway_router_peer_restored_blocks_total", "peer"))
		}
		ticket := again.begin(prompt("known"))
		if ticket.Endpoint() != where {
			t.Errorf("the restarted router sent a known prompt to %s, not %s", ticket.Endpoint(), where)
		}
		end(ticket)
	})
}

// What is told of a life of an endpoint that is over counts for nothing.
func TestOtherLivesAreIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, b := pair(t, n)
		for _, id := range []string{"x", "y", "z"} {
			b.fleet.restart(id) // b has seen it, a has not
		}
		ticket := a.begin(prompt("old"))
		soon()
		if _, elsewhere := b.totals(); elsewhere != 0 || b.metric("spillway_router_peer_unheard_total", "other_life") == 0 {
			t.Errorf("%d requests on lives that are over", elsewhere)
		}
		end(ticket)
		b.fleet.change("x", func(e *pool.State) { e.ID = "w" })
		var open []*route.Ticket
		for i := range 3 { // one at each endpoint
			open = append(open, a.begin(prompt(fmt.Sprint(i))))
		}
		for _, ticket := range open {
			end(ticket)
		}
		soon()
		if b.metric("spillway_router_peer_unheard_total", "unknown_endpoint") == 0 {
			t.Error("nothing was said of an endpoint that b does not have")
		}
	})
}

// Routers with other salts refuse each other and say which key it is; one that
// is listed among its own peers notices.
func TestStrangersAndOneself(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a := join(t, n, 1, newFleet(1, "x"), nil, 1, 2)
		b := join(t, n, 2, newFleet(1, "x"), func(c *share.Config) { c.Salt = []byte("quite another salt of some length") }, 1)
		pass(5 * time.Second)
		if a.peer(1).State != "self" || a.peer(2).State != "silent" || b.peer(1).State != "silent" {
			t.Errorf("a: %+v, b: %+v", a.node.Status(), b.node.Status())
		}
		if !a.logged("share_salt_file") || !b.logged("share_salt_file") || a.metric("spillway_router_peer_streams_ended_total", "refused") == 0 {
			t.Error("the salts are not blamed")
		}
		ticket := a.begin(prompt("alone"))
		if strings.Contains(ticket.Header(), a.address) {
			t.Errorf("a misses itself: %s", ticket.Header())
		}
		end(ticket)
	})
}

// A peer that several addresses lead to is followed by one of them, and by another
// when that one leads nowhere.
func TestAddressesOfOnePeer(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a := join(t, n, 1, newFleet(1, "x", "y"), nil)
		n.alias(1, 11)
		b := join(t, n, 2, newFleet(11, "x", "y"), nil, 1, 11)
		tickets := []*route.Ticket{a.begin(prompt("one")), a.begin(prompt("two"))}
		soon()
		check := func(when string) {
			t.Helper()
			states := []string{b.peer(1).State, b.peer(11).State}
			slices.Sort(states)
			if !slices.Equal(states, []string{"alias", "connected"}) {
				t.Errorf("%s: %+v", when, b.node.Status())
			}
			if _, elsewhere := b.totals(); elsewhere != 2 {
				t.Errorf("%s: %d requests of a peer that has 2", when, elsewhere)
			}
			ticket := b.begin(prompt("another"))
			if strings.Contains(ticket.Header(), "without word") {
				t.Errorf("%s: %s", when, ticket.Header())
			}
			end(ticket)
		}
		check("at first")
		pass(30 * time.Second)
		check("later")
		followed := b.peer(1)
		if followed.State != "connected" {
			followed = b.peer(11)
		}
		n.sever(followed.Address)
		pass(30 * time.Second)
		if _, elsewhere := b.totals(); elsewhere != 2 {
			t.Errorf("%d requests by the other address of a peer that has 2", elsewhere)
		}
		n.mend(followed.Address)
		pass(5 * time.Second)
		check("again")
		for _, ticket := range tickets {
			end(ticket)
		}
		soon()
		if _, elsewhere := b.totals(); elsewhere != 0 {
			t.Errorf("%d requests after the end", elsewhere)
		}
	})
}

// Three routers under churn of requests, endpoints and streams agree on all that
// is in flight once they have heard of it, and on nothing when it has ended.
func TestChurn(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var all []*member
		for i := 1; i <= 3; i++ {
			all = append(all, join(t, n, i, newFleet(uint64(100*i), "x", "y", "z"), nil, 1, 2, 3))
		}
		soon()
		open := make([][]*route.Ticket, len(all))
		var work sync.WaitGroup
		for i, m := range all {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			work.Go(func() {
				for range 150 {
					switch k := rng.IntN(100); {
					case k < 50:
						ticket := m.begin(prompt(fmt.Sprint(rng.IntN(20))))
						open[i] = append(open[i], ticket)
						if rng.IntN(2) == 0 {
							ticket.FirstToken(time.Now())
							ticket.Tokens(40, time.Now())
						}
					case k < 90 && len(open[i]) > 0:
						j := rng.IntN(len(open[i]))
						end(open[i][j])
						open[i] = append(open[i][:j], open[i][j+1:]...)
					case k < 95:
						pass(time.Duration(rng.IntN(40)) * time.Millisecond)
					case k < 97:
						n.sever(address(1 + rng.IntN(3)))
					default:
						n.mend(address(1 + rng.IntN(3)))
					}
				}
			})
		}
		work.Wait()
		for i := range all {
			n.mend(address(i + 1))
		}
		pass(5 * time.Second)
		sum := len(open[0]) + len(open[1]) + len(open[2])
		for i, m := range all {
			if own, elsewhere := m.totals(); own != len(open[i]) || own+elsewhere != sum {
				t.Errorf("router %d sees %d own and %d others, want %d and %d", i+1, own, elsewhere, len(open[i]), sum-len(open[i]))
			}
		}
		for i := range all {
			for _, ticket := range open[i] {
				end(ticket)
			}
		}
		pass(time.Second)
		for i, m := range all {
			if own, elsewhere := m.totals(); own != 0 || elsewhere != 0 {
				t.Errorf("router %d sees %d own and %d others after all has ended", i+1, own, elsewhere)
			}
		}
	})
}

// A router that is told to end while it begins ends without an error.
func TestEndAtTheBeginning(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		for range 50 {
			join(t, n, 1, newFleet(1, "x"), nil).stop()
		}
	})
}

// Retrying moves a request for the others too, and an end without success
// teaches nothing.
func TestMovesAreShared(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a, b := pair(t, n)
		ticket := a.begin(prompt("moved"))
		was := ticket.Endpoint()
		if !ticket.Retry(route.Reset) {
			t.Fatal("no retry")
		}
		soon()
		if _, left := b.counts(was); left != 0 {
			t.Errorf("%d requests where it was", left)
		}
		if _, here := b.counts(ticket.Endpoint()); here != 1 {
			t.Errorf("%d requests where it is", here)
		}
		ticket.End(route.End{Status: feature.ClientAbort, TTFT: unknown, TPOT: unknown, E2E: unknown,
			PromptTokens: feature.Unknown, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown})
		soon()
		if _, elsewhere := b.totals(); elsewhere != 0 || b.metric("spillway_router_peer_words_total", "in", "taught") != 0 {
			t.Errorf("%d requests after an abort, %v lessons", elsewhere, b.metric("spillway_router_peer_words_total", "in", "taught"))
		}
	})
}
