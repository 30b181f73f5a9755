package handover_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/handover"
)

// place is a path short enough for a socket.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "spw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "handover.sock")
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

type end struct {
	succeeded bool
	err       error
}

// offer runs an offer and returns where its end is told.
func offer(t *testing.T, ctx context.Context, path string, from *handover.Legacy, asked func(), listeners ...net.Listener) <-chan end {
	t.Helper()
	o, err := handover.NewOffer(path, from)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan end, 1)
	go func() {
		succeeded, err := o.Run(ctx, listeners, asked)
		ended <- end{succeeded, err}
	}()
	return ended
}

func take(t *testing.T, path string) *handover.Legacy {
	t.Helper()
	l, err := handover.Take(t.Context(), path)
	if err != nil || l == nil {
		t.Fatalf("took %v: %v", l, err)
	}
	t.Cleanup(l.Close)
	return l
}

// A client that connected before the old router stopped accepting, and that nobody
// accepted, is the new one's.
func TestWaitingConnectionsGoToTheSuccessor(t *testing.T) {
	path, old, asked := place(t), listener(t), 0
	ended := offer(t, t.Context(), path, nil, func() { asked++ }, old)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the socket is %v, %v; want mode 0600", info.Mode(), err)
	}
	early, err := net.Dial("tcp", old.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()

	legacy := take(t, path)
	if legacy.Listener("127.0.0.1:1") != nil {
		t.Error("a listener of another address was given")
	}
	now := legacy.Listener(old.Addr().String())
	if now == nil || legacy.Process() != os.Getpid() {
		t.Fatalf("got no listener of %s, or process %d", old.Addr(), legacy.Process())
	}
	defer now.Close()
	if legacy.Listener(old.Addr().String()) != nil {
		t.Error("one listener was given twice")
	}
	// The successor offers in turn, at the same path.
	next := offer(t, t.Context(), path, legacy, func() {}, now)
	if err := legacy.Succeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; !got.succeeded || got.err != nil || asked != 1 {
		t.Errorf("the offer ended %+v, asked %d times", got, asked)
	}
	old.Close()

	late, err := net.Dial("tcp", now.Addr().String())
	if err != nil {
		t.Fatal("a connection was refused: ", err)
	}
	defer late.Close()
	for _, client := range []net.Conn{early, late} {
		served, err := now.Accept()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(served, "hello")
		served.Close()
		if got, err := io.ReadAll(client); string(got) != "hello" {
			t.Errorf("a client got %q: %v", got, err)
		}
	}

	third := take(t, path)
	if err := third.Succeed(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-next; !got.succeeded {
		t.Errorf("the second offer ended %+v", got)
	}
}

// One that is told to end while it takes has nothing, or what it needs to go on: it
// must not think that the old router is gone.
func TestTakeThatIsInterrupted(t *testing.T) {
	path, old := place(t), listener(t)
	ended := offer(t, t.Context(), path, nil, func() {}, old)
	rng := rand.New(rand.NewPCG(1, 1))
	took := 0
	for range 150 {
		ctx, cancel := context.WithCancel(t.Context())
		interrupted := make(chan struct{})
		time.AfterFunc(time.Duration(rng.IntN(400))*time.Microsecond, func() { cancel(); close(interrupted) })
		legacy, err := handover.Take(ctx, path)
		<-interrupted
		if err != nil {
			continue
		}
		took++
		next := offer(t, t.Context(), path, legacy, func() {}, old)
		if err := legacy.Succeed(t.Context()); err != nil {
			t.Fatalf("after %d: %v", took, err)
		}
		if got := <-ended; !got.succeeded {
			t.Fatalf("after %d the offer ended %+v", took, got)
		}
		legacy.Close()
		ended = next
	}
	if took == 0 {
		t.Error("none took")
	}
}

// One that gives up changes nothing.
func TestASuccessorThatFailsChangesNothing(t *testing.T) {
	path, old := place(t), listener(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := offer(t, ctx, path, nil, func() {}, old)
	for range 3 {
		failed := take(t, path)
		failed.Close()
	}
	legacy := take(t, path)
	select {
	case <-legacy.Gone():
		t.Fatal("the old router is said to be gone")
	case got := <-ended:
		t.Fatalf("the offer ended %+v", got)
	default:
	}
	legacy.Close()
	stop() // the old one ends without a successor
	if got := <-ended; got.succeeded || got.err != nil {
		t.Errorf("the offer ended %+v", got)
	}
	<-legacy.Gone()
}

func TestNobodyBefore(t *testing.T) {
	path := place(t)
	for _, at := range []string{"", path} {
		if l, err := handover.Take(t.Context(), at); l != nil || err != nil {
			t.Errorf("%q: took %v: %v", at, l, err)
		}
	}
	var none *handover.Legacy
	if none.Listener("127.0.0.1:1") != nil {
		t.Error("a listener out of nothing")
	}
	none.Close()

	// What a killed router leaves is a socket that nobody serves.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if l, err := handover.Take(t.Context(), path); l != nil || err != nil {
		t.Errorf("took %v of a dead router: %v", l, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := offer(t, ctx, path, nil, func() {}, listener(t))
	take(t, path).Close()
	stop()
	<-ended
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

func TestMistakesAreOneSentence(t *testing.T) {
	path := place(t)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := handover.Take(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is a file, not a socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := handover.NewOffer(filepath.Join(path, "x"), nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("below a file: %v", err)
	}
	for name, says := range map[string]string{"garbage\n": "not understood", `{"addresses":["a"]}`: "1 addresses came with 0 sockets"} {
		at := place(t)
		l, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer l.Close()
			if conn, err := l.Accept(); err == nil {
				io.WriteString(conn, name)
				conn.Close()
			}
		}()
		if _, err := handover.Take(t.Context(), at); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", name, err, says)
		}
	}
}
