package share

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/sharev1"
	"github.com/spillway-llm/spillway/router/route"
)

// States of a link.
const (
	stateConnected = "connected"
	stateSilent    = "silent" // nothing was heard for Config.Silence
	stateWaiting   = "waiting"
	stateSelf      = "self"  // the address is this router's own
	stateAlias     = "alias" // the address is another one of a peer that is followed already
)

var states = []string{stateConnected, stateSilent, stateWaiting, stateSelf, stateAlias}

// nobodyElse reports whether nothing is missed where nothing is heard in a state.
func nobodyElse(state string) bool { return state == stateSelf || state == stateAlias }

// How soon a peer is asked again that could not be followed, and how soon one
// that refused, or turned out to be this router or one that is followed already.
const (
	retryFirst   = 50 * time.Millisecond
	retryMost    = time.Second
	retryRefused = 10 * time.Second
)

// Why a stream ended.
var (
	errSelf  = errors.New("the address is this router's own")
	errAlias = errors.New("the address is another one of a peer that is followed already")
	errGap   = errors.New("a message is missing")
)

// link follows one peer.
type link struct {
	node   *Node
	place  place
	peer   *route.Peer
	cancel context.CancelFunc

	mu     sync.Mutex
	state  string
	router string    // the peer's name
	heard  time.Time // last word; zero: none
	since  time.Time // without a word, while there was none
	broke  error     // how the last stream ended since it was heard; nil: none did

	// Of whoever reads the stream.
	life, sequence uint64
	words          []route.Word
}

func newLink(n *Node, p place) *link {
	return &link{node: n, place: p, peer: n.router.Meet(p.address), state: stateWaiting, since: time.Now()}
}

func (l *link) status(now time.Time) route.PeerStatus {
	inFlight := l.peer.InFlight()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := route.PeerStatus{Address: l.place.address, Router: l.router, State: l.state, Age: feature.Seconds(feature.Unknown), InFlight: inFlight}
	if !l.heard.IsZero() {
		s.Age = feature.SecondsOf(now.Sub(l.heard))
	}
	return s
}

// run follows the peer until ctx is done.
func (l *link) run(ctx context.Context) {
	defer l.peer.Leave()
	var watching sync.WaitGroup
	watch, stop := context.WithCancel(ctx)
	watching.Go(func() { l.watch(watch) })
	defer watching.Wait()
	defer stop()
	wait := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := l.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		l.ended(err)
		wait = min(2*wait, retryMost)
		if time.Since(began) > retryMost || errors.Is(err, errGap) {
			wait = retryFirst
		}
		pause := wait
		switch {
		case errors.Is(err, errSelf), errors.Is(err, errAlias):
			l.nobody(err)
			pause = retryRefused
		case status.Code(err) == codes.PermissionDenied, status.Code(err) == codes.FailedPrecondition:
			l.node.log.Warn("a peer refuses to be followed", "peer", l.place.address, "error", status.Convert(err).Message())
			pause = retryRefused
		}
		l.node.metrics.ended.WithLabelValues(reasonOf(err)).Inc()
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// reasonOf is why a stream ended, of a closed set.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errSelf):
		return "self"
	case errors.Is(err, errAlias):
		return "alias"
	case errors.Is(err, errGap):
		return "gap"
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded, status.Code(err) == codes.Canceled:
		return "silent"
	case status.Code(err) == codes.PermissionDenied, status.Code(err) == codes.FailedPrecondition, status.Code(err) == codes.ResourceExhausted:
		return "refused"
	}
	return "lost"
}

var endings = []string{"self", "alias", "gap", "silent", "refused", "lost"}

// watch forgets what the peer has in flight once it was silent for too long.
func (l *link) watch(ctx context.Context) {
	ticker := time.NewTicker(heartbeat / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			l.silence(now)
		}
	}
}

// silence forgets what the peer has in flight if it was silent for too long by now.
// It keeps the lock until that is done: what is heard in the meantime comes after it.
func (l *link) silence(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.since
	if l.heard.After(last) {
		last = l.heard
	}
	if l.state == stateSilent || nobodyElse(l.state) || now.Sub(last) <= l.node.config.Silence {
		return
	}
	l.state = stateSilent
	n := l.peer.Forget(true)
	l.node.metrics.forgotten.Add(float64(n))
	line := []any{"peer", l.place.address, "silent", now.Sub(last).Round(time.Millisecond), "requests", n}
	if l.broke != nil { // another port, TLS that the other does not speak
		line = append(line, "error", status.Convert(l.broke).Message())
	}
	l.node.log.Warn("a peer is silent; what it had in flight is forgotten", line...)
}

// ended notes how a stream ended.
func (l *link) ended(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broke = err
}

// nobody notes that the address is nobody else's: errSelf or errAlias.
func (l *link) nobody(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = stateAlias
	if errors.Is(err, errSelf) {
		l.state = stateSelf
	}
	l.peer.Forget(false)
}

// follow reads one stream to its end.
func (l *link) follow(ctx context.Context) error {
	n := l.node
	credentials, err := n.credentials(l.place.host)
	if err != nil {
		return err
	}
	dial := n.config.Dial
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+l.place.address, grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(credentials), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	)
	if err != nil {
		return fmt.Errorf("peer %s: %w", l.place.address, err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A peer that hangs ends no stream: this does, and cancels what is read.
	overdue := time.AfterFunc(n.config.Silence, cancel)
	defer overdue.Stop()
	stream, err := sharev1.NewSharingClient(conn).Follow(ctx, &sharev1.FollowRequest{
		Version: version, SaltProof: n.proof, Router: n.config.Router, Holdings: !n.whole.Load(),
	})
	if err != nil {
		return err
	}
	l.sequence = 0
	defer n.release(l)
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		overdue.Reset(n.config.Silence)
		if err := l.take(m, time.Now()); err != nil {
			return err
		}
	}
}

// take takes in one message. It ends the stream with errSelf, errAlias and errGap.
func (l *link) take(m *sharev1.Words, now time.Time) error {
	n := l.node
	if m.GetLife() == n.life {
		return errSelf
	}
	if !n.claim(m.GetLife(), l) {
		return errAlias
	}
	if l.life != m.GetLife() {
		if l.life != 0 {
			n.log.Info("a peer has begun anew", "peer", l.place.address)
			l.peer.Forget(false)
		}
		l.life, l.sequence = m.GetLife(), 0
	}
	switch {
	case m.GetSequence() <= l.sequence:
		n.metrics.duplicates.Inc()
		return nil
	case m.GetSequence() > l.sequence+1:
		return errGap
	}
	l.sequence++
	l.word(m.GetRouter(), now)

	l.words = l.words[:0]
	for _, w := range m.GetWords()[:min(len(m.GetWords()), wordsPerMessage)] {
		if heard, ok := decode(w, now); ok {
			n.metrics.words.WithLabelValues("in", heard.Kind.String()).Inc()
			l.words = append(l.words, heard)
		}
	}
	l.peer.Hear(l.words, func(why route.Unheard) { n.metrics.unheard.WithLabelValues(string(why)).Inc() })
	clear(l.words)
	for _, h := range m.GetHoldings() {
		n.restore.add(decodeHolding(h, 0), fromPeer, now)
	}
	if m.GetHoldingsEnd() {
		n.whole.Store(true)
		n.log.Info("a peer has told what is believed to be cached", "peer", l.place.address)
	}
	return nil
}

// word notes that something was heard, of a router that may have said its name.
func (l *link) word(router string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.state
	l.state, l.heard, l.broke = stateConnected, now, nil
	if router != "" {
		l.router = router
	}
	if was != stateConnected {
		l.peer.Heard()
		l.node.log.Info("a peer is heard", "peer", l.place.address, "router", l.router)
	}
}
