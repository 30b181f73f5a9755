package kube

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

func init() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) }

// apiServer keeps objects as an API server does: by a version that only grows,
// with a history that may be lost.
type apiServer struct {
	mu       sync.Mutex
	version  int
	oldest   int // watches may begin at this version or later
	objects  map[string]*unstructured.Unstructured
	history  []watch.Event // of the versions after oldest, but lost ones
	watchers []*watch.RaceFreeFakeWatcher
	away     bool
}

func newAPIServer() *apiServer {
	return &apiServer{objects: map[string]*unstructured.Unstructured{}}
}

var errAway = errors.New("connection refused")

func (a *apiServer) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return nil, errAway
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	list.SetResourceVersion(strconv.Itoa(a.version))
	for _, name := range slices.Sorted(maps.Keys(a.objects)) {
		list.Items = append(list.Items, *a.objects[name].DeepCopy())
	}
	return list, nil
}

func (a *apiServer) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, err := strconv.Atoi(o.ResourceVersion)
	switch {
	case a.away:
		return nil, errAway
	case err != nil:
		return nil, err
	case from < a.oldest:
		return nil, apierrors.NewResourceExpired("too old")
	}
	w := watch.NewRaceFreeFake()
	for _, e := range a.history {
		if v, _ := strconv.Atoi(e.Object.(*unstructured.Unstructured).GetResourceVersion()); v > from {
			w.Action(e.Type, e.Object.DeepCopyObject())
		}
	}
	a.watchers = append(a.watchers, w)
	return w, nil
}

// change takes in an event; a lost one only shows in a list.
func (a *apiServer) change(kind watch.EventType, object map[string]any, lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	u := (&unstructured.Unstructured{Object: object}).DeepCopy()
	u.SetResourceVersion(strconv.Itoa(a.version))
	if kind == watch.Deleted {
		delete(a.objects, u.GetName())
	} else {
		a.objects[u.GetName()] = u
	}
	if lost {
		return
	}
	a.history = append(a.history, watch.Event{Type: kind, Object: u})
	for _, w := range a.watchers {
		if !w.IsStopped() {
			w.Action(kind, u.DeepCopy())
		}
	}
}

// reset ends every watch and forgets what happened, so that all must be listed
// again.
func (a *apiServer) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.oldest, a.history = a.version, nil
	for _, w := range a.watchers {
		w.Stop()
	}
	a.watchers = nil
}

// leave makes it answer nobody, until it is back with nothing remembered.
func (a *apiServer) leave() {
	a.mu.Lock()
	a.away = true
	a.mu.Unlock()
	a.reset()
}

func (a *apiServer) back() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = false
}
