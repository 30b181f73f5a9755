package kube

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// meta is what is read of an object's metadata.
type meta struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	DeletionTimestamp string            `json:"deletionTimestamp"` // empty: it is to stay
}

// slice is what is read of an EndpointSlice (discovery.k8s.io/v1).
type slice struct {
	Meta        meta   `json:"metadata"`
	AddressType string `json:"addressType"` // IPv4, IPv6 or FQDN
	Endpoints   []struct {
		Addresses  []string `json:"addresses"` // all of one endpoint: the first will do
		Conditions struct {
			Ready       *bool `json:"ready"`       // nil means true
			Serving     *bool `json:"serving"`     // nil means as ready
			Terminating *bool `json:"terminating"` // nil means false
		} `json:"conditions"`
	} `json:"endpoints"`
	Ports []port `json:"ports"`
}

// pod is what is read of a Pod (v1).
type pod struct {
	Meta meta `json:"metadata"`
	Spec struct {
		InitContainers []container `json:"initContainers"` // sidecars among them
		Containers     []container `json:"containers"`
	} `json:"spec"`
	Status struct {
		PodIP      string `json:"podIP"` // empty: none yet
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

type container struct {
	Ports []struct {
		Name          string `json:"name"`
		ContainerPort int    `json:"containerPort"`
		Protocol      string `json:"protocol"` // empty means TCP
	} `json:"ports"`
}

// port is one that an object lists.
type port struct {
	Name     string `json:"name"` // may be empty
	Port     int    `json:"port"`
	Protocol string `json:"protocol"` // empty means TCP
}

func (p port) String() string {
	if p.Name == "" {
		return fmt.Sprint(p.Port)
	}
	return fmt.Sprintf("%s (%d)", p.Name, p.Port)
}

// decode reads an object that the informer keeps.
func decode[T any](object any) (T, error) {
	var out T
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return out, fmt.Errorf("the API server gave a %T", object)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
		return out, fmt.Errorf("%s %s/%s can't be read: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return out, nil
}

// read are the fields of an object that are kept, by path; those of the two
// kinds together.
var read = [][]string{
	{"apiVersion"}, {"kind"},
	{"metadata", "namespace"}, {"metadata", "name"}, {"metadata", "uid"}, {"metadata", "resourceVersion"},
	{"metadata", "labels"}, {"metadata", "annotations"}, {"metadata", "deletionTimestamp"},
	{"addressType"}, {"endpoints"}, {"ports"},
	{"status", "podIP"}, {"status", "conditions"},
}

// strip drops of an object what is never read: most of a Pod. It is an
// informer's transform.
func strip(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil // one that was missed as it went
	}
	small := map[string]any{}
	for _, path := range read {
		if value, found, err := unstructured.NestedFieldNoCopy(u.Object, path...); found && err == nil {
			if err := unstructured.SetNestedField(small, value, path...); err != nil {
				return nil, fmt.Errorf("keep %s: %w", strings.Join(path, "."), err)
			}
		}
	}
	for _, kind := range []string{"initContainers", "containers"} {
		all, found, err := unstructured.NestedSlice(u.Object, "spec", kind)
		if !found || err != nil {
			continue
		}
		var ports []any
		for _, c := range all {
			if c, ok := c.(map[string]any); ok && c["ports"] != nil {
				ports = append(ports, map[string]any{"ports": c["ports"]})
			}
		}
		if err := unstructured.SetNestedSlice(small, ports, "spec", kind); err != nil {
			return nil, fmt.Errorf("keep spec.%s: %w", kind, err)
		}
	}
	delete(annotationsOf(small), "kubectl.kubernetes.io/last-applied-configuration")
	return &unstructured.Unstructured{Object: small}, nil
}

func annotationsOf(object map[string]any) map[string]any {
	all, _, _ := unstructured.NestedFieldNoCopy(object, "metadata", "annotations")
	annotations, _ := all.(map[string]any)
	return annotations
}
