package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router"
)

// succeeding is a configuration that one router after the other may run with, on
// the same addresses.
func succeeding(t *testing.T, urls ...string) func() router.Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "spw") // a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var addresses [2]string
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = l.Addr().String()
		l.Close()
	}
	return func() router.Config {
		c := config(urls...)
		c.Listen, c.Admin, c.Handover = addresses[0], addresses[1], filepath.Join(dir, "handover.sock")
		return c
	}
}

// keen is an engine that answers at once.
func keen(t *testing.T) *engine {
	e := newEngine(t)
	close(e.finish)
	return e
}

// asker keeps its connections and tries nothing twice: net/http can't, without a
// body that it may read again.
type asker struct{ client http.Client }

func (a *asker) ask(at net.Addr) (string, error) {
	req, err := http.NewRequest("POST", "http://"+at.String()+"/v1/chat/completions", io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return "", err
	}
	req.ContentLength = int64(len(body))
	res, err := a.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(text) != token+ended) {
		err = fmt.Errorf("%s: %q", res.Status, text)
	}
	return res.Header.Get("X-Spillway-Decision"), err
}

// Clients that keep their connections and try nothing twice see no router end while
// others take over from it, one after the other.
func TestASuccessorLosesNoRequest(t *testing.T) {
	next := succeeding(t, keen(t).URL)
	routers := []*running{start(t, next())}
	at := routers[0].at.Listen

	recording, forget := context.WithCancel(t.Context())
	defer forget()
	asking, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var asked atomic.Int64
	for range 8 {
		clients.Go(func() {
			a := asker{http.Client{Transport: &http.Transport{}}}
			defer a.client.CloseIdleConnections()
			for asking.Err() == nil {
				if _, err := a.ask(at); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
			}
		})
	}
	drain := func(r *running) {
		for {
			select {
			case <-r.rows.decisions:
			case <-r.rows.outcomes:
			case <-recording.Done():
				return
			}
		}
	}
	go drain(routers[0])
	for i := range 3 {
		r := start(t, next())
		go drain(r)
		routers = append(routers, r)
		<-routers[i].closed
		for before := asked.Load(); asked.Load() < before+32 && !t.Failed(); {
			r.post(t).Body.Close()
		}
	}
	if code, text := routers[3].get(t, "/readyz"); code != http.StatusOK {
		t.Errorf("the last router is not ready: %d %s", code, text)
	}
	for i, r := range routers[:3] {
		if err := <-r.ended; err != nil {
			t.Errorf("router %d: %v", i, err)
		}
	}
	stop()
	clients.Wait()
}

// What a router has begun it ends, after another has taken over.
func TestASuccessorLetsStreamsEnd(t *testing.T) {
	slow := newEngine(t)
	next := succeeding(t, slow.URL)
	first := start(t, next())
	answer := first.post(t)
	if _, err := io.ReadFull(answer.Body, make([]byte, len(token))); err != nil {
		t.Fatal(err)
	}
	second := start(t, next())
	<-first.closed
	later := second.post(t)
	close(slow.finish)
	for _, a := range []*http.Response{answer, later} {
		if rest, err := io.ReadAll(a.Body); err != nil || !strings.HasSuffix(string(rest), ended) {
			t.Errorf("an answer ends with %q: %v", rest, err)
		}
	}
	if err := <-first.ended; err != nil {
		t.Error(err)
	}
	if len(first.rows.outcomes) != 1 || len(second.rows.decisions) != 1 {
		t.Errorf("the first has %d outcomes, the second %d decisions; want one each", len(first.rows.outcomes), len(second.rows.decisions))
	}
}

// A router that can't serve takes no other one's place, and one that has begun to
// end gives its place to the first that asks.
func TestASuccessorMustBeAbleToServe(t *testing.T) {
	next := succeeding(t, keen(t).URL)
	first := start(t, next())
	unable := next()
	unable.Pool.Endpoints[0].URL = "http://127.0.0.1:1"
	unable.Recorder = first.rows
	ctx, giveUp := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer giveUp()
	if err := router.Run(ctx, unable); err != nil {
		t.Errorf("told to end while it waits: %v", err)
	}
	early := next()
	early.Recorder = first.rows
	if err := router.Run(ctx, early); err != nil {
		t.Errorf("told to end before it began: %v", err)
	}
	io.Copy(io.Discard, first.post(t).Body)
	select {
	case err := <-first.ended:
		t.Fatalf("the first router ended: %v", err)
	default:
	}

	leaving := next()
	leaving.DrainDelay = time.Hour
	second := start(t, leaving)
	<-first.ended
	second.stop() // waits for the delay, or for a successor
	third := start(t, next())
	if err := <-second.ended; err != nil {
		t.Error(err)
	}
	if a := third.post(t); a.StatusCode != http.StatusOK {
		t.Errorf("the third answers %s", a.Status)
	}
}

// A connection is kept over the answer after which the router was told to end, and
// the next request on it is served.
func TestDrainServesKeptConnections(t *testing.T) {
	slow := newEngine(t)
	r := start(t, config(slow.URL))
	conn, err := net.Dial("tcp", r.at.Listen.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	io.WriteString(conn, request)
	<-r.rows.decisions
	r.stop()
	<-r.closed
	close(slow.finish)
	answers := bufio.NewReader(conn)
	for i, closes := range []bool{false, true} {
		if i > 0 {
			io.WriteString(conn, request)
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasSuffix(string(text), ended) || res.Close != closes {
			t.Errorf("answer %d: %q, %v, closes %v", i+1, text, err, res.Close)
		}
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}
