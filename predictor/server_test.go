package predictor_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
)

// value reads one metric; labels are "name=value".
func value(t *testing.T, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metrics:
		for _, m := range f.Metric {
			have := map[string]bool{}
			for _, l := range m.Label {
				have[l.GetName()+"="+l.GetValue()] = true
			}
			for _, l := range labels {
				if !have[l] {
					continue metrics
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("no metric %s %v", name, labels)
	return 0
}

// hostile changes the first such words in a bundle's first forest.
func hostile(from, to string) func(*bundle.Bundle) {
	return func(b *bundle.Bundle) {
		b.Heads[0].Forest = bytes.Replace(b.Heads[0].Forest, []byte(from), []byte(to), 1)
	}
}

func TestBadBundleKeepsTheOldOne(t *testing.T) {
	good := bundleOf(t, 0.1)
	spoiled := func(f func(*bundle.Bundle)) func(*shelf) {
		b := *bundleOf(t, 0.3)
		f(&b)
		data := encoded(t, &b)
		return func(from *shelf) { from.publish(2, data) }
	}
	for _, c := range []struct {
		name, result, want string
		publish            func(*shelf)
		retried            bool
	}{
		{"not a bundle", "corrupt", "magic", func(from *shelf) { from.publish(2, make([]byte, 500)) }, false},
		{"truncated", "corrupt", "truncated", func(from *shelf) { from.publish(2, encoded(t, good)[:900]) }, false},
		{"other bytes", "checksum", "SHA-256", func(from *shelf) { from.publishSum(2, encoded(t, good), sha256.Sum256(nil)) }, false},
		{"another LLM", "check", "another", spoiled(func(b *bundle.Bundle) { b.LLM = "another" }), false},
		{"another schema", "schema", "schema", spoiled(func(b *bundle.Bundle) { b.Schema[0]++ }), false},
		{"wrong answer", "check", "known answer", spoiled(func(b *bundle.Bundle) { b.Known[0].Raw[1] += 0.01 }), false},
		{"forest", "check", "head tpot_p90", spoiled(func(b *bundle.Bundle) { b.Heads[3].Forest = []byte("tree\nversion=v3\n") }), false},
		{"hostile forest: cyclic", "check", "head ttft_p50", spoiled(hostile("left_child=-1", "left_child=0")), false},
		{"hostile forest: absurd count", "check", "head ttft_p50", spoiled(hostile("num_leaves=2", "num_leaves=999999999")), false},
		{"hostile forest: foreign column", "check", "head ttft_p50", spoiled(hostile("feature_names=prompt_tokens", "feature_names=price")), false},
		{"oversized", "corrupt", "at most", func(from *shelf) { from.publish(2, make([]byte, bundle.MaxSize+1)) }, false},
		{"no bytes", "fetch_failed", "fetch", func(from *shelf) {
			from.publish(2, nil)
			from.change(func() { delete(from.bundles, 2) })
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			registry := prometheus.NewRegistry()
			from := newShelf()
			s := predictor.New(predictor.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: registry}, from)
			from.publish(1, encoded(t, good))
			s.Sync(t.Context())

			c.publish(from)
			fetches := from.fetches
			s.Sync(t.Context())
			s.Sync(t.Context())
			if retried := from.fetches-fetches > 1; retried != c.retried {
				t.Errorf("fetched again: %v, want %v", retried, c.retried)
			}
			if n := strings.Count(log.String(), "can't be served"); n != 1 {
				t.Errorf("logged %d times, want once:\n%s", n, &log)
			}
			if n := value(t, registry, "spillway_predictor_swaps_total", "result="+c.result); n == 0 {
				t.Errorf("not counted as %s", c.result)
			}
			got := s.Status().LLMs[0]
			if got.State != predictor.Failed || got.Bundle != 1 || got.Published != 2 || !strings.Contains(got.LastError, c.want) {
				t.Errorf("status %+v, want failed over %q with bundle 1 kept", got, c.want)
			}
			vectors := vectorsOf(1, 8)
			out := make([]feature.Forecast, 8)
			info, err := predictor.InProcess(s).Forecast(t.Context(), llm, vectors, out)
			if err != nil || info.Bundle != 1 || !cmp.Equal(forecastsOf(t, good, vectors), out) {
				t.Errorf("the old bundle does not forecast: %+v, %v", info, err)
			}

			from.publish(3, encoded(t, bundleOf(t, 0.2)))
			s.Sync(t.Context())
			if got := s.Status().LLMs[0]; got.State != predictor.Serving || got.Bundle != 3 || got.LastError != "" {
				t.Errorf("after a good bundle: %+v", got)
			}
		})
	}
}

func TestFirstBundleFails(t *testing.T) {
	from := newShelf()
	s := predictor.New(predictor.Config{}, from)
	from.publish(1, []byte("nothing"))
	s.Sync(t.Context())
	if got := s.Status().LLMs[0]; got.State != predictor.Failed || got.Bundle != 0 || got.Published != 1 {
		t.Errorf("status %+v", got)
	}
	_, err := predictor.InProcess(s).Forecast(t.Context(), llm, nil, nil)
	if !errors.Is(err, predictor.ErrUntrained) || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("error %v, want ErrUntrained with the reason", err)
	}
}

func TestFollowsThePointer(t *testing.T) {
	registry := prometheus.NewRegistry()
	from := newShelf()
	s := predictor.New(predictor.Config{Registerer: registry}, from)
	ask := predictor.InProcess(s)
	state := func() predictor.LLMStatus {
		t.Helper()
		s.Sync(t.Context())
		all := s.Status().LLMs
		if len(all) != 1 {
			t.Fatalf("status of %d LLMs, want 1", len(all))
		}
		return all[0]
	}
	from.publish(1, encoded(t, bundleOf(t, 0.1)))
	if got := state(); got.State != predictor.Serving || got.Bundle != 1 {
		t.Fatalf("status %+v", got)
	}

	old := from.published[llm]
	renewed := old
	renewed.ValidatedAt, renewed.MaxAge = old.ValidatedAt.Add(time.Minute), 2*time.Hour
	from.change(func() { from.published[llm] = renewed })
	if got := state(); !got.ValidatedAt.Equal(renewed.ValidatedAt) || got.MaxAge != 2*time.Hour || from.fetches != 1 {
		t.Errorf("renewed validation: %+v after %d fetches", got, from.fetches)
	}

	renewed.ValidatedAt = time.Now().Add(-3 * time.Hour)
	from.change(func() { from.published[llm] = renewed })
	if got := state(); got.State != predictor.Stale {
		t.Errorf("status %+v, want stale", got)
	}
	if n := value(t, registry, "spillway_predictor_state", "llm="+llm, "state=stale"); n != 1 {
		t.Errorf("state metric %v", n)
	}
	if age := value(t, registry, "spillway_predictor_bundle_age_seconds", "llm="+llm); age < 3*3600 {
		t.Errorf("age metric %v, want 3 hours", age)
	}
	if _, err := ask.Forecast(t.Context(), llm, nil, nil); err != nil {
		t.Errorf("a stale bundle forecasts no more: %v", err)
	}

	from.publish(2, []byte("broken"))
	if got := state(); got.State != predictor.Failed || got.Bundle != 1 {
		t.Errorf("status %+v", got)
	}
	from.change(func() { from.published[llm] = old }) // rollback
	if got := state(); got.State != predictor.Serving || got.Bundle != 1 || got.LastError != "" {
		t.Errorf("after the rollback: %+v", got)
	}

	from.change(func() { delete(from.published, llm) })
	s.Sync(t.Context())
	if _, err := ask.Forecast(t.Context(), llm, nil, nil); !errors.Is(err, predictor.ErrUntrained) {
		t.Errorf("withdrawn: error %v, want ErrUntrained", err)
	}
	if n := value(t, registry, "spillway_predictor_swaps_total", "result=withdrawn"); n != 1 {
		t.Errorf("withdrawn %v times", n)
	}
}

func TestSourceAwayChangesNothing(t *testing.T) {
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	from := newShelf()
	s := predictor.New(predictor.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: registry}, from)
	from.publish(1, encoded(t, bundleOf(t, 0.1)))
	s.Sync(t.Context())
	from.change(func() { from.err = errors.New("database is away") })
	for range 3 {
		s.Sync(t.Context())
	}
	if got := s.Status(); got.SourceError != "database is away" || got.LLMs[0].State != predictor.Serving {
		t.Errorf("status %+v", got)
	}
	if n := strings.Count(log.String(), "does not answer"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if n := value(t, registry, "spillway_predictor_source_errors_total", "call=published"); n != 3 {
		t.Errorf("counted %v times, want 3", n)
	}
	from.change(func() { from.err = nil })
	s.Sync(t.Context())
	if got := s.Status(); got.SourceError != "" || !strings.Contains(log.String(), "answers again") {
		t.Errorf("status %+v and log %s", got, &log)
	}
}

func TestMetricsOfCalls(t *testing.T) {
	registry := prometheus.NewRegistry()
	from := newShelf()
	s := predictor.New(predictor.Config{Registerer: registry}, from)
	ask := predictor.InProcess(s)
	_, _ = ask.Forecast(t.Context(), llm, nil, nil)
	from.publish(5, encoded(t, bundleOf(t, 0.1)))
	s.Sync(t.Context())
	vectors := vectorsOf(7, 10)
	vectors[2][feature.ColumnPriorTPOT] = 0
	vectors[3][feature.ColumnPromptTokens] = 1e9
	if _, err := ask.Forecast(t.Context(), llm, vectors, make([]feature.Forecast, 10)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		label string
		want  float64
	}{
		{"requests_total", "status=ok", 1},
		{"requests_total", "status=untrained", 1},
		{"rows_total", "status=ok", 8},
		{"rows_total", "status=invalid_vector", 1},
		{"rows_total", "status=unsupported", 1},
		{"swaps_total", "result=swapped", 1},
		{"bundle_version", "llm=" + llm, 5},
	} {
		if got := value(t, registry, "spillway_predictor_"+c.name, c.label); got != c.want {
			t.Errorf("%s{%s} is %v, want %v", c.name, c.label, got, c.want)
		}
	}
	if n := value(t, registry, "spillway_predictor_forecast_seconds"); n != 1 {
		t.Errorf("%v observations of the time, want 1", n)
	}
}

func TestHealth(t *testing.T) {
	from := newShelf()
	s := predictor.New(predictor.Config{}, from)
	addr := socket(t)
	serve(t, s, addr)
	dialReady(t, addr)
	health := healthpb.NewHealthClient(stubOf(t, addr))
	check := func(want map[string]healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for service, status := range want {
			got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			if err != nil || got.Status != status {
				t.Errorf("health of %q: %v, %v, want %v", service, got, err, status)
			}
		}
	}
	const yes, no = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	type states = map[string]healthpb.HealthCheckResponse_ServingStatus
	check(states{"": yes, predictor.Liveness: yes, predictor.Readiness: no, "latency.v1.Predictor": no})
	from.publish(1, encoded(t, bundleOf(t, 0)))
	s.Sync(t.Context())
	check(states{"": yes, predictor.Liveness: yes, predictor.Readiness: yes, "latency.v1.Predictor": yes})
	from.publish(2, []byte("broken"))
	s.Sync(t.Context())
	check(states{"": yes, predictor.Liveness: yes, predictor.Readiness: no})
}

// run starts s.Run in the bubble of the test and returns what ends it.
func run(t *testing.T, s *predictor.Server) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestRunPolls(t *testing.T) {
	data := encoded(t, bundleOf(t, 0.1))
	synctest.Test(t, func(t *testing.T) {
		from := newShelf()
		s := predictor.New(predictor.Config{PollInterval: 5 * time.Second}, from)
		defer run(t, s)()
		synctest.Wait()
		if from.looks != 1 {
			t.Errorf("%d looks at the start, want 1", from.looks)
		}
		from.publish(1, data)
		<-time.After(5*time.Second + time.Millisecond)
		synctest.Wait()
		if got := s.Status().LLMs; len(got) != 1 || got[0].Bundle != 1 {
			t.Errorf("one poll later: %+v", got)
		}
	})
}

func TestRunIsWokenAndListensAgain(t *testing.T) {
	data := encoded(t, bundleOf(t, 0.1))
	synctest.Test(t, func(t *testing.T) {
		from := newShelf()
		notify, drop := make(chan struct{}), make(chan struct{})
		listens := 0
		from.listening = func(ctx context.Context, changed func()) error {
			listens++
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-drop:
					return errors.New("connection lost")
				case <-notify:
					changed()
				}
			}
		}
		s := predictor.New(predictor.Config{PollInterval: time.Hour}, from)
		defer run(t, s)()
		from.publish(1, data)
		notify <- struct{}{}
		synctest.Wait()
		if got := s.Status().LLMs; len(got) != 1 || got[0].Bundle != 1 {
			t.Errorf("once notified: %+v", got)
		}
		drop <- struct{}{}
		synctest.Wait()
		<-time.After(2 * time.Second)
		from.publish(2, data)
		notify <- struct{}{}
		synctest.Wait()
		if got := s.Status().LLMs[0]; got.Bundle != 2 || listens != 2 {
			t.Errorf("after the connection came back: %+v, listened %d times", got, listens)
		}
	})
}
