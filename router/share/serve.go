package share

import (
	"crypto/hmac"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/proto/gen/sharev1"
	"github.com/spillway-llm/spillway/router/route"
)

const (
	// heartbeat is after how long without news a router says that there is none.
	heartbeat = 500 * time.Millisecond
	// gather is how long more words are waited for after the first, so that a
	// busy router sends 100 messages a second and not one for each word.
	gather = 10 * time.Millisecond
)

// service is what others ask.
type service struct {
	sharev1.UnimplementedSharingServer
	node *Node
}

// Follow implements the contract.
func (s service) Follow(r *sharev1.FollowRequest, stream grpc.ServerStreamingServer[sharev1.Words]) error {
	n := s.node
	switch {
	case r.GetVersion() != version:
		return status.Errorf(codes.FailedPrecondition, "this router shares by version %d of the contract, not %d", version, r.GetVersion())
	case !hmac.Equal(r.GetSaltProof(), n.proof):
		n.log.Warn("a router with another salt wanted to follow; router.share_salt_file must hold the same everywhere", "router", r.GetRouter())
		return status.Error(codes.PermissionDenied, "the salts differ: router.share_salt_file must hold the same everywhere")
	}
	f, ok := n.journal.join()
	if !ok {
		return status.Errorf(codes.ResourceExhausted, "%d routers follow already", mostPeers)
	}
	defer n.journal.leave(f)
	t := telling{node: n, follower: f, stream: stream}
	if err := t.restate(); err != nil {
		return err
	}
	if r.GetHoldings() {
		if err := t.holdings(); err != nil {
			return err
		}
	}
	return t.run()
}

// telling is one stream.
type telling struct {
	node     *Node
	follower *follower
	stream   grpc.ServerStreamingServer[sharev1.Words]
	sequence uint64
	words    []route.Word
}

func (t *telling) send(m *sharev1.Words) error {
	t.sequence++
	m.Life, m.Sequence = t.node.life, t.sequence
	if t.sequence == 1 {
		m.Router = t.node.config.Router
	}
	return t.stream.Send(m)
}

// tell sends words in messages of bounded size.
func (t *telling) tell(words []route.Word) error {
	now := time.Now()
	for len(words) > 0 {
		m, hashes := &sharev1.Words{}, 0
		for len(words) > 0 && len(m.Words) < wordsPerMessage && hashes < blocksPerMessage {
			w := encode(&words[0], now)
			t.node.metrics.words.WithLabelValues("out", words[0].Kind.String()).Inc()
			hashes += len(w.Chain)
			m.Words = append(m.Words, w)
			words = words[1:]
		}
		if err := t.send(m); err != nil {
			return err
		}
	}
	return nil
}

// restate tells all that is in flight; the journal goes on from there.
func (t *telling) restate() error {
	var all []route.Word
	t.node.router.InFlight(func(words []route.Word) {
		all = words
		t.node.journal.skip(t.follower)
	})
	return t.tell(all)
}

// holdings tells what is believed to be cached, and news in between.
func (t *telling) holdings() (err error) {
	t.node.router.Holdings(func(h route.Holding) bool {
		err = encodeHolding(&h, func(part *sharev1.Holding) error {
			if err := t.send(&sharev1.Words{Holdings: []*sharev1.Holding{part}}); err != nil {
				return err
			}
			return t.news()
		})
		return err == nil
	})
	if err != nil {
		return err
	}
	return t.send(&sharev1.Words{HoldingsEnd: true})
}

// news tells what the journal has.
func (t *telling) news() error {
	for {
		var whole bool
		t.words, whole = t.node.journal.read(t.follower, t.words[:0], wordsPerMessage)
		if !whole {
			t.node.metrics.overflows.Inc()
			if err := t.restate(); err != nil {
				return err
			}
			continue
		}
		if len(t.words) == 0 {
			return nil
		}
		if err := t.tell(t.words); err != nil {
			return err
		}
		clear(t.words)
	}
}

// run tells news until the stream or the router ends.
func (t *telling) run() error {
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	for {
		timer.Reset(heartbeat)
		select {
		case <-t.stream.Context().Done():
			return t.stream.Context().Err()
		case <-t.node.ended:
			return status.Error(codes.Unavailable, "this router ends")
		case <-timer.C:
			if err := t.send(&sharev1.Words{}); err != nil {
				return err
			}
			continue
		case <-t.follower.news:
		}
		timer.Reset(gather)
		select {
		case <-t.stream.Context().Done():
			return t.stream.Context().Err()
		case <-t.node.ended: // what is there is told
		case <-timer.C:
		}
		if err := t.news(); err != nil {
			return err
		}
	}
}
