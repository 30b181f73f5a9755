package socket_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// A peer that ends with something unread resets the connection. That is said
// once, and then it is over: another read does not wait for more.
func TestReadsEndAfterAReset(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		if _, err := client.Write([]byte("never read")); err != nil {
			t.Fatal(err)
		}
		server.Close()
		if err := client.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if n, err := client.Read(b); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("Read: %d, %v", n, err)
		}
		if n, err := client.Read(b); n != 0 || err != io.EOF {
			t.Errorf("Read after the reset: %d, %v", n, err)
		}
	})
}

// A socket of packets is read packet by packet, none of which fills the room
// there is for it.
func TestPackets(t *testing.T) {
	client, server := pair(t, "unixpacket")
	want := []string{"one", "two", "three"}
	for _, packet := range want {
		if _, err := client.Write([]byte(packet)); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	for _, packet := range want {
		if n, err := server.Read(b); string(b[:n]) != packet || err != nil {
			t.Fatalf("Read: %q, %v, want %q", b[:n], err, packet)
		}
	}
}
