package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/spillway-llm/spillway/router/pool"
)

// resync is how often all is told again without a change.
const resync = 10 * time.Minute

// lister is what a Source needs of a client.
type lister interface {
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Source is one Watch at work: a pool.Source.
type Source struct {
	watch   Watch
	objects lister

	poke chan struct{} // something may have to be told; one waiting stands for all

	mu     sync.Mutex
	failed error // why the API server can't be asked; nil: it can
}

// String names what is watched, for people and metrics.
func (s *Source) String() string { return s.watch.String() }

// Run lists and watches until ctx ends and tells the pool what there is. Run it
// once.
func (s *Source) Run(ctx context.Context, tell func(pool.News)) {
	s.poke = make(chan struct{}, 1)
	informer := cache.NewSharedIndexInformerWithOptions(&asked{s}, &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ResyncPeriod: resync})
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.wake() },
		UpdateFunc: func(any, any) { s.wake() },
		DeleteFunc: func(any) { s.wake() },
	}
	// These fail on an informer that runs, which this one does not yet.
	_ = informer.SetTransform(strip)
	_ = informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}) // asked saw it
	_, _ = informer.AddEventHandler(changed)

	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		select {
		case <-informer.HasSyncedChecker().Done():
			s.wake()
		case <-ctx.Done():
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.poke:
		}
		n := pool.News{}
		if informer.HasSynced() {
			n = s.watch.find(informer.GetStore().List())
		}
		if n.Err = s.failure(); n.Err != nil || n.Endpoints != nil {
			tell(n)
		}
	}
}

func (s *Source) wake() {
	select {
	case s.poke <- struct{}{}:
	default: // Run has yet to look and will see this with what woke it before
	}
}

func (s *Source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// answered takes in whether the API server could be asked.
func (s *Source) answered(verb string, err error) {
	s.mu.Lock()
	before := s.failed
	s.failed = s.watch.explain(verb, err)
	s.mu.Unlock()
	if before != nil || err != nil {
		s.wake()
	}
}

// asked is the API server as the informer asks it: every answer is taken in.
type asked struct{ source *Source }

// ListWithContext lists all objects.
func (a *asked) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.LabelSelector = a.source.watch.labels()
	list, err := a.source.objects.List(ctx, o)
	if err == nil {
		return list, nil // it is known again when it can be watched too
	}
	if ctx.Err() == nil && !tooOld(err) {
		a.source.answered("list", err)
	}
	return nil, err
}

// WatchWithContext begins a watch.
func (a *asked) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector = a.source.watch.labels()
	w, err := a.source.objects.Watch(ctx, o)
	if ctx.Err() == nil && !tooOld(err) {
		a.source.answered("watch", err)
	}
	return w, err
}

// List is ListWithContext for callers without one.
func (a *asked) List(o metav1.ListOptions) (runtime.Object, error) {
	return a.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext for callers without one.
func (a *asked) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return a.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported keeps the informer to a list and then a
// watch, which every API server knows: there are few objects.
func (a *asked) IsWatchListSemanticsUnSupported() bool { return true }

// tooOld is how an API server says that a watch goes too far back: the informer
// lists again, and nothing is amiss.
func tooOld(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// explain says what an error means for whoever must act.
func (w *Watch) explain(verb string, err error) error {
	resource := w.resource().GroupResource()
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return &pool.SourceError{Reason: pool.Forbidden, Err: fmt.Errorf(
			"%s: the API server forbids to %s %s in namespace %s: give the router's service account a Role there with the rule {apiGroups: [%q], resources: [%q], verbs: [list, watch]}: %w",
			w, verb, resource, w.Namespace, resource.Group, resource.Resource, err)}
	case apierrors.IsUnauthorized(err):
		return &pool.SourceError{Reason: pool.Forbidden, Err: fmt.Errorf(
			"%s: the API server knows no such credentials: those of the Pod's service account or of router.discovery.kubeconfig: %w", w, err)}
	case apierrors.IsNotFound(err):
		return &pool.SourceError{Reason: pool.NotFound, Err: fmt.Errorf("%s: the API server has no %s (%s): %w", w, resource, w.resource().Version, err)}
	}
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return &pool.SourceError{Reason: pool.Failed, Err: fmt.Errorf("%s: %s %s: %w", w, verb, resource, err)}
	}
	return &pool.SourceError{Reason: pool.Unreachable, Err: fmt.Errorf("%s: the API server can't be reached to %s %s: %w", w, verb, resource, err)}
}
