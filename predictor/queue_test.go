package predictor_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// occupied is a context of a forecast that takes until it is released.
type occupied struct {
	context.Context
	evaluating func()
	released   chan struct{}
}

func (o occupied) Err() error {
	o.evaluating()
	<-o.released
	return nil
}

// occupy lets one forecast of s take until release is called, which waits for
// it.
func occupy(t *testing.T, s *predictor.Server) (release func()) {
	t.Helper()
	evaluating := make(chan struct{})
	o := occupied{context.Background(), sync.OnceFunc(func() { close(evaluating) }), make(chan struct{})}
	var done sync.WaitGroup
	done.Go(func() {
		if _, err := predictor.InProcess(s).Forecast(o, llm, vectorsOf(1, 1), make([]feature.Forecast, 1)); err != nil {
			t.Errorf("what took long: %v", err)
		}
	})
	<-evaluating
	return func() {
		close(o.released)
		done.Wait()
	}
}

// waiting is a context that tells when it is waited for.
type waiting struct {
	context.Context
	told func()
}

func (w waiting) Done() <-chan struct{} {
	w.told()
	return w.Context.Done()
}

// small is a server with one forecast at a time and so many waiting.
func small(t *testing.T, waiting int) (*predictor.Server, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	from := newShelf()
	s := predictor.New(predictor.Config{Concurrency: 1, MaxWaiting: waiting, Registerer: registry}, from)
	from.publish(1, encoded(t, bundleOf(t, 0.1)))
	s.Sync(t.Context())
	return s, registry
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, registry := small(t, 3)
		ask := predictor.InProcess(s)
		release := occupy(t, s)
		forecast := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := ask.Forecast(ctx, llm, vectorsOf(1, 1), make([]feature.Forecast, 1))
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		impatient, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		late := forecast(impatient)
		leaves, leave := context.WithCancel(t.Context())
		left := forecast(leaves)
		patient := forecast(t.Context())
		if n := value(t, registry, "spillway_predictor_queue_requests"); n != 3 {
			t.Errorf("%v wait, want 3", n)
		}
		if err := <-forecast(t.Context()); !errors.Is(err, predictor.ErrBusy) {
			t.Errorf("one too many: %v, want ErrBusy", err)
		}

		if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("its deadline passed: %v", err)
		}
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("nobody wants it any more: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-patient:
			t.Errorf("the patient one did not wait: %v", err)
		default:
		}
		release()
		if err := <-patient; err != nil {
			t.Errorf("the patient one: %v", err)
		}
		passed, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		if err := <-forecast(passed); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a free slot, but late: %v", err)
		}

		for label, want := range map[string]float64{"full": 1, "expired": 2, "canceled": 1, "deadline": 0, "ok": 2} {
			if n := value(t, registry, "spillway_predictor_requests_total", "status="+label); n != want {
				t.Errorf("%v are counted as %s, want %v", n, label, want)
			}
		}
		if n := value(t, registry, "spillway_predictor_rows_total", "status=ok"); n != 2 {
			t.Errorf("%v rows were evaluated, want 2: what is dropped costs nothing", n)
		}
	})
}

// Over the wire a full queue is RESOURCE_EXHAUSTED, at once, and a deadline
// holds while a call waits.
func TestQueueOverTheWire(t *testing.T) {
	s, registry := small(t, 1)
	addr := socket(t)
	serve(t, s, addr)
	client := dialReady(t, addr)
	release := occupy(t, s)

	queued := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		ctx := waiting{t.Context(), sync.OnceFunc(func() { close(queued) })}
		if _, err := predictor.InProcess(s).Forecast(ctx, llm, nil, nil); err != nil {
			t.Errorf("the one that waits: %v", err)
		}
	})
	<-queued
	if _, err := client.Forecast(t.Context(), llm, vectorsOf(1, 1), make([]feature.Forecast, 1)); !errors.Is(err, predictor.ErrBusy) {
		t.Errorf("the queue is full: %v, want ErrBusy", err)
	}
	request := &latencyv1.ForecastRequest{Llm: llm, Schema: wireSchema(), Rows: 1, Vectors: make([]float32, feature.Width)}
	_, err := latencyv1.NewPredictorClient(stubOf(t, addr)).Forecast(t.Context(), request)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the queue is full: %v, want RESOURCE_EXHAUSTED", err)
	}
	if n := value(t, registry, "spillway_predictor_requests_total", "status=full"); n != 2 {
		t.Errorf("%v are counted as full, want 2", n)
	}
	release()
	done.Wait()
}

func TestDeadlineInTheQueueOverTheWire(t *testing.T) {
	s, _ := small(t, 4)
	addr := socket(t)
	serve(t, s, addr)
	client := dialReady(t, addr)
	release := occupy(t, s)
	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := client.Forecast(impatient, llm, vectorsOf(1, 1), make([]feature.Forecast, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its deadline passed in the queue: %v", err)
	}
	release()
	if _, err := client.Forecast(t.Context(), llm, vectorsOf(1, 1), make([]feature.Forecast, 1)); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// timeless is a context that is done and says of itself that it is not, as one
// may be for a moment when the clock is put back.
type timeless struct{ context.Context }

func (timeless) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Whoever leaves the queue without a turn evaluates nothing, and takes nobody
// else's turn with him.
func TestQueueWhenTheClockIsPutBack(t *testing.T) {
	s, _ := small(t, 3)
	release := occupy(t, s)
	ask := predictor.InProcess(s)
	if _, err := ask.Forecast(timeless{t.Context()}, llm, vectorsOf(1, 1), make([]feature.Forecast, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("done, and no turn: %v", err)
	}
	release()
	if _, err := ask.Forecast(t.Context(), llm, vectorsOf(1, 1), make([]feature.Forecast, 1)); err != nil {
		t.Error(err)
	}
}
