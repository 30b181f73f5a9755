package kube

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-llm/spillway/router/pool"
)

// Watch says where endpoints are found: behind a Service, or among Pods.
type Watch struct {
	Namespace string `yaml:"namespace"` // the router's own when empty, or that of the kubeconfig
	Service   string `yaml:"service"`   // name of a Service; excludes selector
	Selector  string `yaml:"selector"`  // labels of Pods, such as app=vllm,tier in (a,b); excludes service

	// Ports of the engine, each a name or a number; every one is an endpoint of
	// its own. The only port that is listed when empty. Of a Service they are
	// the target's, as its EndpointSlices list them.
	Ports []string `yaml:"ports"`

	pool.Traits `yaml:",inline"`
}

// Check reports the first setting that can't work, by its key. It asks nobody.
func (w *Watch) Check() error {
	switch {
	case w.Service == "" && w.Selector == "":
		return errors.New("service: is empty, and selector too; want the name of a Service, or the labels of Pods")
	case w.Service != "" && w.Selector != "":
		return errors.New("selector: excludes service; watch each with an entry of its own")
	}
	if why := validation.IsDNS1123Label(w.Namespace); w.Namespace != "" && len(why) > 0 {
		return fmt.Errorf("namespace: %q can't be a namespace's name", w.Namespace)
	}
	if why := validation.IsDNS1035Label(w.Service); w.Service != "" && len(why) > 0 {
		return fmt.Errorf("service: %q can't be a Service's name", w.Service)
	}
	if _, err := labels.Parse(w.Selector); err != nil {
		return fmt.Errorf("selector: %q can't be read: want one such as app=vllm", w.Selector)
	}
	for i, p := range w.Ports {
		if n, err := strconv.Atoi(p); err == nil && n >= 1 && n <= 65535 {
			continue
		}
		if len(validation.IsValidPortName(p)) > 0 {
			return fmt.Errorf("ports[%d]: %q is neither a port's name nor its number", i, p)
		}
	}
	return w.Traits.Check()
}

// String names what is watched.
func (w *Watch) String() string {
	if w.Service != "" {
		return "service " + w.Namespace + "/" + w.Service
	}
	return "pods " + w.Namespace + "/" + w.Selector
}

// resource is what is listed and watched.
func (w *Watch) resource() schema.GroupVersionResource {
	if w.Service != "" {
		return schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// labels selects the objects.
func (w *Watch) labels() string {
	if w.Service != "" {
		return "kubernetes.io/service-name=" + w.Service
	}
	return w.Selector
}

// find makes news of the objects there are.
func (w *Watch) find(objects []any) pool.News {
	if w.Service != "" {
		return w.behindService(objects)
	}
	return w.amongPods(objects)
}
