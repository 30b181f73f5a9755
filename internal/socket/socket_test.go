package socket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/socket"
)

// pair is both ends of a connection, quiet ones.
func pair(t *testing.T, network string) (client, server net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network != "tcp" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	quiet := socket.QuietListener(l)
	t.Cleanup(func() { quiet.Close() })
	plain, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client = socket.Quiet(plain)
	if server, err = quiet.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func both(t *testing.T, test func(t *testing.T, client, server net.Conn)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			client, server := pair(t, network)
			test(t, client, server)
		})
	}
}

// What is written is read, also where it is more than any buffer between the
// two holds, and then comes the end.
func TestBytesPass(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		want := make([]byte, 8<<20)
		for i := range want {
			want[i] = byte(i * i >> 7)
		}
		go func() {
			for rest := want; len(rest) > 0; {
				n, err := client.Write(rest[:min(len(rest), 3<<20)])
				if err != nil {
					t.Error(err)
					break
				}
				rest = rest[n:]
			}
			client.Close()
		}()
		got, err := io.ReadAll(server)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d of %d bytes came, %v", len(got), len(want), err)
		}
	})
}

func TestDeadlinesEndReadAndWrite(t *testing.T) {
	both(t, func(t *testing.T, client, _ net.Conn) {
		if err := client.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := client.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %d, %v", n, err)
		}
		all := make([]byte, 16<<20)
		if n, err := client.Write(all); n == len(all) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %d, %v", n, err)
		}
	})
}

func TestCloseEndsRead(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		ended := make(chan error)
		go func() {
			_, err := server.Read(make([]byte, 1))
			ended <- err
		}()
		server.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read: %v", err)
		}
		if _, err := server.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write: %v", err)
		}
		if n, err := client.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the other end reads %d, %v", n, err)
		}
	})
}

func TestReadAndWriteAllocateNothing(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		b := make([]byte, 100)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := client.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(server, b); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// What is read at once with the end behind it is not waited for again.
func TestEndComesAfterTheRest(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		if _, err := client.Write([]byte("rest")); err != nil {
			t.Fatal(err)
		}
		client.Close()
		b := make([]byte, 100)
		if n, err := server.Read(b); string(b[:n]) != "rest" || err != nil {
			t.Fatalf("Read: %q, %v", b[:n], err)
		}
		for range 2 {
			if n, err := server.Read(b); n != 0 || err != io.EOF {
				t.Fatalf("Read: %q, %v", b[:n], err)
			}
		}
	})
}

func TestCloseEndsWrite(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		ended := make(chan error)
		go func() {
			_, err := server.Write(make([]byte, 16<<20))
			ended <- err
		}()
		if _, err := client.Read(make([]byte, 1)); err != nil { // it has begun
			t.Fatal(err)
		}
		server.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write: %v", err)
		}
	})
}

// Calls and answers of all sizes follow each other, several at a time, and none
// is missed.
func TestCallsAndAnswers(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		const calls = 2000
		go func() {
			b := make([]byte, 3000)
			for {
				n, err := server.Read(b)
				if err != nil {
					return
				}
				if _, err := server.Write(b[:n]); err != nil {
					return
				}
			}
		}()
		go func() {
			for i := range calls {
				if _, err := client.Write(bytes.Repeat([]byte{byte(i)}, 1+i%1000)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		for i := range calls {
			b := make([]byte, 1+i%1000)
			if _, err := io.ReadFull(client, b); err != nil || b[0] != byte(i) || b[len(b)-1] != byte(i) {
				t.Fatalf("call %d came back as %v, %v", i, b[:1], err)
			}
		}
	})
}

// What one side did before it wrote the other may see once it has read: with
// the race detector on, it says so.
func TestWhatWasWrittenCameBefore(t *testing.T) {
	both(t, func(t *testing.T, client, server net.Conn) {
		said := 0
		go func() {
			said = 1
			if _, err := client.Write([]byte{1}); err != nil {
				t.Error(err)
			}
		}()
		if _, err := server.Read(make([]byte, 1)); err != nil || said != 1 {
			t.Errorf("%d was said, %v", said, err)
		}
	})
}

// A connection of no file descriptor stays as it is.
func TestPipe(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	if socket.Quiet(a) != a {
		t.Error("a pipe became another connection")
	}
}
