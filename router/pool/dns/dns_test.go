package dns_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/pool/dns"
)

// zone is a DNS server on loopback.
type zone struct {
	mu      sync.Mutex
	records map[string][]dnsmessage.Resource // by type and name
	code    dnsmessage.RCode                 // of every answer
	silent  bool
}

func (z *zone) set(change func(*zone)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	change(z)
}

// serve answers until the test ends.
func (z *zone) serve(t *testing.T) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		packet := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := z.answer(t, packet[:n]); answer != nil {
				conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func (z *zone) answer(t *testing.T, question []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
		t.Errorf("a question that can't be read: %v", err)
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.silent {
		return nil
	}
	m.Response, m.RCode, m.Additionals = true, z.code, nil
	q := m.Questions[0]
	m.Answers = z.records[strings.TrimPrefix(q.Type.String(), "Type")+" "+q.Name.String()]
	if m.RCode == dnsmessage.RCodeSuccess && m.Answers == nil {
		m.RCode = dnsmessage.RCodeNameError
		for key := range z.records {
			if strings.HasSuffix(key, " "+q.Name.String()) {
				m.RCode = dnsmessage.RCodeSuccess // the name is there, with records of another type
			}
		}
	}
	packed, err := m.Pack()
	if err != nil {
		t.Errorf("pack: %v", err)
	}
	return packed
}

func record(name string, body dnsmessage.ResourceBody, kind dnsmessage.Type) dnsmessage.Resource {
	return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}, Body: body}
}

func a(name string, last byte) dnsmessage.Resource {
	return record(name, &dnsmessage.AResource{A: [4]byte{10, 0, 0, last}}, dnsmessage.TypeA)
}

func aaaa(name string, last byte) dnsmessage.Resource {
	return record(name, &dnsmessage.AAAAResource{AAAA: [16]byte{0: 0xfd, 15: last}}, dnsmessage.TypeAAAA)
}

func srv(name, target string, port uint16) dnsmessage.Resource {
	return record(name, &dnsmessage.SRVResource{Target: dnsmessage.MustNewName(target), Port: port}, dnsmessage.TypeSRV)
}

// ask runs a query; next gives its news one by one.
func ask(t *testing.T, q dns.Query) (next func() pool.News) {
	t.Helper()
	news := make(chan pool.News)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		dns.New(q).Run(ctx, func(n pool.News) {
			select {
			case news <- n:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() pool.News {
		select {
		case n := <-news:
			return n
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was told")
			panic("unreachable")
		}
	}
}

func ids(n pool.News) []string {
	var all []string
	for _, e := range n.Endpoints {
		all = append(all, e.ID)
	}
	return all
}

func TestResolves(t *testing.T) {
	t.Parallel()
	z := &zone{records: map[string][]dnsmessage.Resource{
		"A vllm.test.":           {a("vllm.test.", 2), a("vllm.test.", 1), a("vllm.test.", 2)},
		"AAAA vllm.test.":        {aaaa("vllm.test.", 1)},
		"SRV _http._tcp.x.test.": {srv("_http._tcp.x.test.", "one.test.", 8001), srv("_http._tcp.x.test.", "two.test.", 8002)},
		"A one.test.":            {a("one.test.", 3)},
		"AAAA two.test.":         {aaaa("two.test.", 4)},
	}}
	server := z.serve(t)
	for _, test := range []struct {
		query dns.Query
		want  []string
	}{
		{dns.Query{Name: "vllm.test.", Port: 8000}, []string{"10.0.0.1:8000", "10.0.0.2:8000"}},
		{dns.Query{Name: "vllm.test.", Type: dns.AAAA, Port: 8000}, []string{"[fd00::1]:8000"}},
		{dns.Query{Name: "_http._tcp.x.test.", Type: dns.SRV}, []string{"10.0.0.3:8001", "[fd00::4]:8002"}},
	} {
		test.query.Server = server
		test.query.Traits = pool.Traits{Class: "h100", LLMs: []string{"m"}, Scheme: "https"}
		n := ask(t, test.query)()
		if diff := cmp.Diff(test.want, ids(n)); diff != "" || n.Err != nil {
			t.Errorf("%+v: %v (-want +got):\n%s", test.query, n.Err, diff)
			continue
		}
		if e := n.Endpoints[0]; e.Class != "h100" || e.LLMs[0] != "m" || e.URL != "https://"+e.ID {
			t.Errorf("%+v", e)
		}
	}
}

// No answer, and the answer that there is nothing, leave the pool as it is.
func TestFailureTellsNoEndpoints(t *testing.T) {
	t.Parallel()
	z := &zone{records: map[string][]dnsmessage.Resource{"A vllm.test.": {a("vllm.test.", 1)}}}
	next := ask(t, dns.Query{Name: "vllm.test.", Port: 8000, Interval: 20 * time.Millisecond, Server: z.serve(t)})
	// until waits for news that hold; what was resolved before a change comes first.
	until := func(what string, holds func(pool.News) bool) {
		t.Helper()
		for begun := time.Now(); ; {
			n := next()
			if holds(n) {
				return
			}
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("%s: %+v", what, n)
			}
		}
	}
	are := func(want ...string) func(pool.News) bool {
		return func(n pool.News) bool { return n.Err == nil && cmp.Equal(want, ids(n)) }
	}
	until("at first", are("10.0.0.1:8000"))
	for _, test := range []struct {
		name   string
		change func(*zone)
		reason string
	}{
		{"no such name", func(z *zone) { z.code = dnsmessage.RCodeNameError }, pool.NotFound},
		{"the server fails", func(z *zone) { z.code = dnsmessage.RCodeServerFailure }, pool.Unreachable},
	} {
		z.set(test.change)
		until(test.name, func(n pool.News) bool {
			var failed *pool.SourceError
			return n.Endpoints == nil && errors.As(n.Err, &failed) && failed.Reason == test.reason && strings.Contains(n.Err.Error(), "dns A vllm.test.:8000")
		})
	}
	z.set(func(z *zone) {
		z.code = dnsmessage.RCodeSuccess
		z.records["A vllm.test."] = []dnsmessage.Resource{a("vllm.test.", 1), a("vllm.test.", 7)}
	})
	until("known again", are("10.0.0.1:8000", "10.0.0.7:8000"))
}

func TestRunEndsWhileNobodyAnswers(t *testing.T) {
	t.Parallel()
	z := &zone{silent: true}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		dns.New(dns.Query{Name: "vllm.test.", Port: 1, Server: z.serve(t)}).Run(ctx, func(n pool.News) { t.Errorf("told %+v", n) })
	}()
	cancel()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
	}
}

func TestCheckNamesTheKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query dns.Query
		want  string
	}{
		{dns.Query{Port: 1}, "name: is empty"},
		{dns.Query{Name: "10.0.0.1", Port: 1}, "name: "},
		{dns.Query{Name: "http://x", Port: 1}, "name: "},
		{dns.Query{Name: "x", Type: "MX", Port: 1}, `type: "MX"`},
		{dns.Query{Name: "x", Type: dns.SRV, Port: 1}, "port: an SRV record"},
		{dns.Query{Name: "x"}, "port: 0"},
		{dns.Query{Name: "x", Port: 1, Interval: time.Millisecond}, "interval: "},
		{dns.Query{Name: "x", Port: 1, Server: "home"}, "server: "},
		{dns.Query{Name: "x", Port: 1, Traits: pool.Traits{MetricsPort: -1}}, "metrics_port "},
		{dns.Query{Name: "x", Type: dns.SRV}, ""},
	} {
		err := test.query.Check()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %q", test.query, err, test.want)
		}
	}
}
