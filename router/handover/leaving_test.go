package handover_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/handover"
)

// A router that ends while the next one gets ready leaves that one its place: it
// serves, and a third one finds it.
func TestARouterEndsWhileTheNextGetsReady(t *testing.T) {
	path, old := place(t), listener(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := offer(t, ctx, path, nil, func() {}, old)
	legacy := take(t, path)
	now := legacy.Listener(old.Addr().String())
	stop()
	if got := <-ended; !got.succeeded || got.err != nil {
		t.Errorf("the offer ended %+v, though another has the listeners", got)
	}
	<-legacy.Gone()
	next := offer(t, t.Context(), path, legacy, func() {}, now)
	if err := legacy.Succeed(t.Context()); err != nil {
		t.Error(err)
	}
	third := take(t, path)
	if err := third.Succeed(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-next; !got.succeeded {
		t.Errorf("the second offer ended %+v", got)
	}
}

// An address that the successor has no more is refused, once the old router ended.
func TestAnAddressThatIsGivenUpIsRefused(t *testing.T) {
	path, old := place(t), listener(t)
	ended := offer(t, t.Context(), path, nil, func() {}, old)
	legacy := take(t, path) // and asks for none of it
	if err := legacy.Succeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	old.Close()
	if conn, err := net.Dial("tcp", old.Addr().String()); err == nil {
		conn.Close()
		t.Errorf("%s takes connections that nobody serves", old.Addr())
	}
}

// A router that has no file descriptor left for the moment can be followed later.
func TestAnOfferOutlivesAFullTable(t *testing.T) {
	path := place(t)
	o, err := handover.NewOffer(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(client, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	asked, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := o.Run(ctx, nil, func() { close(asked) })
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the offer ended: %v", err)
	case <-asked:
		t.Fatal("a connection was accepted without a file descriptor")
	case <-time.After(20 * time.Millisecond):
	}
	restore()
	<-asked
	syscall.Close(client)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
