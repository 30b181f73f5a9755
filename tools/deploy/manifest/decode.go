// Package manifest reads Kubernetes manifests as strictly as an API server
// would, and finds what in a set of them refers to something that is not there.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Object is a manifest in its Go type.
type Object interface {
	runtime.Object
	metav1.Object
}

// Set is the manifests that are applied together, in order.
type Set []Object

// scheme knows the kinds a deployment of Spillway may have. Another one is an
// error: it would be decoded by nobody.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		gatewayv1.Install, inferencev1.Install, monitoringv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two kinds of one name: a mistake of the list above
		}
	}
	return s
}()

// Decode reads YAML documents. A kind that is not known, a field that its type
// has not, and one that is given twice are errors, which name the document. Empty
// documents, as templates leave them, are passed over.
func Decode(data []byte) (Set, error) {
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data)))
	defer documents.Close()
	buffer := make([]byte, len(data)+1)
	var set Set
	for i := 1; ; i++ {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return set, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if blank(buffer[:n]) {
			continue
		}
		decoded, kind, err := strict.Decode(buffer[:n], nil, nil)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		object, ok := decoded.(Object)
		if !ok {
			return nil, fmt.Errorf("document %d: %s has no metadata", i, kind)
		}
		if object.GetName() == "" {
			return nil, fmt.Errorf("document %d: %s has no name", i, kind)
		}
		set = append(set, object)
	}
}

// blank reports whether a document has nothing but comments.
func blank(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// Name is what messages call an object.
func Name(o Object) string {
	kind := reflect.TypeOf(o).Elem().Name()
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return strings.Join([]string{kind, o.GetNamespace() + "/" + o.GetName()}, " ")
}

// Of are the objects of one kind.
func Of[T Object](s Set) []T {
	var all []T
	for _, o := range s {
		if t, ok := o.(T); ok {
			all = append(all, t)
		}
	}
	return all
}

// named is the object of one kind with this name in this namespace.
func named[T Object](s Set, namespace, name string) (found T, ok bool) {
	for _, o := range Of[T](s) {
		if o.GetName() == name && o.GetNamespace() == namespace {
			return o, true
		}
	}
	return found, false
}
