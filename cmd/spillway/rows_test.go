package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/spillway-llm/spillway/featurestore/pglocal"
	"github.com/spillway-llm/spillway/internal/loadgen"
)

// steadyTrace is a trace of a given length: short requests at an even rate.
func steadyTrace(t *testing.T, length time.Duration, perSecond int) (file string, requests int) {
	t.Helper()
	var s strings.Builder
	s.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	begin := time.Date(2023, 11, 16, 18, 0, 0, 0, time.UTC)
	gap := time.Second / time.Duration(perSecond)
	for at := time.Duration(0); at < length; at += gap {
		fmt.Fprintf(&s, "%s,%d,%d\n", begin.Add(at).Format("2006-01-02 15:04:05.0000000"), 50+requests%7*100, 10+requests%11*8)
		requests++
	}
	return write(t, "steady.csv", s.String()), requests
}

// load is a running load generator.
type load struct {
	*process
	out string
}

func startLoad(t *testing.T, url, trace string) *load {
	t.Helper()
	out := filepath.Join(t.TempDir(), "records.jsonl")
	return &load{start(t, "", "load", "--url", url, "--trace", trace, "--out", out, "--json"), out}
}

// records are those of the requests that have ended.
func (l *load) records() []loadgen.Record {
	l.t.Helper()
	file, err := os.Open(l.out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	defer file.Close()
	var all []loadgen.Record
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return all // the last line may be half written
		}
		var r loadgen.Record
		if err := json.Unmarshal(line, &r); err != nil {
			l.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, r)
	}
}

// answered waits until at least n requests have been answered.
func (l *load) answered(n int) {
	l.t.Helper()
	eventually(l.t, func(context.Context) error {
		if got := len(l.records()); got < n {
			return fmt.Errorf("%d requests are answered, want %d", got, n)
		}
		return nil
	})
}

// stored are the ids of decisions, and those of outcomes, each as often as it
// is stored, in order.
func stored(ctx context.Context, database string) (decisions, outcomes []string, err error) {
	if decisions, err = texts(ctx, database, "SELECT id::text FROM decisions ORDER BY 1"); err != nil {
		return nil, nil, err
	}
	outcomes, err = texts(ctx, database, "SELECT decision::text FROM outcomes ORDER BY 1")
	return decisions, outcomes, err
}

// sameRows compares the ids that clients were given, sorted here, with those
// in each table, once the tables hold as many.
func sameRows(t *testing.T, database string, given []string) {
	t.Helper()
	slices.Sort(given)
	var decisions, outcomes []string
	eventually(t, func(ctx context.Context) (err error) {
		if decisions, outcomes, err = stored(ctx, database); err != nil {
			return err
		}
		if len(decisions) < len(given) || len(outcomes) < len(given) {
			return fmt.Errorf("%d decisions and %d outcomes are stored, want %d", len(decisions), len(outcomes), len(given))
		}
		return nil
	})
	for table, ids := range map[string][]string{"decisions": decisions, "outcomes": outcomes} {
		if lost, more := beyond(given, ids), beyond(ids, given); len(lost)+len(more) > 0 {
			t.Errorf("%s: %d rows for %d requests; %d lost, %d too many, such as %q", table, len(ids), len(given), len(lost), len(more), append(lost, more...)[0])
		}
	}
}

// beyond is what a holds beyond b, both in order, each as often.
func beyond(a, b []string) (more []string) {
	for _, s := range a {
		for len(b) > 0 && b[0] < s {
			b = b[1:]
		}
		if len(b) > 0 && b[0] == s {
			b = b[1:]
			continue
		}
		more = append(more, s)
	}
	return more
}

// metric is the sum of a metric's series.
func (r *routerProcess) metric(name string) float64 {
	r.t.Helper()
	a, err := reach(r.t.Context(), http.MethodGet, r.admin+"/metrics", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(a.body)))
	if err != nil {
		r.t.Fatal(err)
	}
	var sum float64
	for _, m := range families[name].GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum
}

// Killing Postgres in the middle of a run loses and duplicates nothing, and no
// request notices.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	outage := 20 * time.Second
	if testing.Short() {
		outage = 3 * time.Second
	}
	const before, after = 3 * time.Second, 3 * time.Second
	// A cluster of its own, that writes through to the disk.
	cluster, err := pglocal.Start(t.Context(), pglocal.Config{DataDir: shortDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	database := cluster.URL()
	must(t, database, "store", "migrate")
	router := startRouter(t, database, unforecast, "endpoints: "+listed(startFleet(t, 3)))
	given := []string{router.served(t).decisionID()}

	const perSecond = 20
	trace, requests := steadyTrace(t, before+outage+after, perSecond)
	load := startLoad(t, router.front, trace)
	load.answered(int(before.Seconds()) * perSecond)
	cluster.Kill()
	earlier := len(load.records())
	load.answered(min(earlier+int(outage.Seconds())*perSecond, requests))
	if got, want := router.metric("spillway_store_rows_spooled_total"), float64(len(load.records())-earlier); got < want {
		t.Errorf("%g rows went to the spool, want at least %g", got, want)
	}
	if up := router.metric("spillway_store_database_up"); up != 0 {
		t.Errorf("the router says the database is up")
	}
	if err := cluster.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	given = append(given, router.served(t).decisionID())

	if code := load.wait(); code != 0 {
		t.Fatalf("load ended with %d", code)
	}
	records := load.records()
	if len(records) != requests {
		t.Errorf("%d requests ended, want %d", len(records), requests)
	}
	for _, r := range records {
		if r.Status != loadgen.OK {
			t.Errorf("request %d: %s %s", r.Index, r.Status, r.Error)
		}
		given = append(given, r.Decision)
	}
	sameRows(t, database, given)
	if dropped := router.metric("spillway_store_rows_dropped_total"); dropped != 0 {
		t.Errorf("%g rows were dropped", dropped)
	}
	router.terminate()
	if code := router.wait(); code != 0 {
		t.Errorf("the router ended with %d", code)
	}
	sameRows(t, database, given)
}

// SIGTERM under load: what was accepted is answered whole and recorded; the
// rest is turned away at the door.
func TestDrain(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	router := startRouter(t, database, unforecast, "drain_timeout: 20s", "endpoints: "+listed(startFleet(t, 3)))
	given := []string{router.served(t).decisionID()}
	const perSecond = 40
	trace, requests := steadyTrace(t, 6*time.Second, perSecond)
	load := startLoad(t, router.front, trace)
	load.answered(2 * perSecond)
	router.terminate()
	if code := router.wait(); code != 0 {
		t.Errorf("the router ended with %d", code)
	}
	if code := load.wait(); code != 0 {
		t.Errorf("load ended with %d", code)
	}
	router.logged("router ends")

	records := load.records()
	if len(records) != requests {
		t.Errorf("%d requests ended, want %d", len(records), requests)
	}
	turnedAway := 0
	for _, r := range records {
		switch {
		case r.Decision == "" && r.HTTPStatus < 0: // no connection, or one that was closed unused
			turnedAway++
		case r.Status != loadgen.OK:
			t.Errorf("request %d, decision %q: %s %d %s", r.Index, r.Decision, r.Status, r.HTTPStatus, r.Error)
		default:
			given = append(given, r.Decision)
		}
	}
	if turnedAway == 0 || turnedAway == requests {
		t.Errorf("%d of %d requests were turned away, want some", turnedAway, requests)
	}
	// Nothing that was turned away has a row.
	sameRows(t, database, given)
	statuses, err := texts(t.Context(), database, "SELECT DISTINCT status FROM outcomes")
	if err != nil || !slices.Equal(statuses, []string{"ok"}) {
		t.Errorf("outcomes %q %v, want ok alone", statuses, err)
	}
}
