package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// namespaceFile says in which namespace a Pod runs.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// clientLog sets the client's log, which may not be changed while it works.
var clientLog sync.Once

// Cluster is an API server to ask.
type Cluster struct {
	client    dynamic.Interface
	namespace string // of sources that name none
}

// Connect prepares to ask the API server that a kubeconfig file names, or, where
// the path is empty, that of the cluster this process runs in. Nothing is asked
// yet. The Kubernetes client has one log for the whole process: it goes to the
// log of the first call, all of it as debug, because sources say what matters.
func Connect(kubeconfig string, log *slog.Logger) (*Cluster, error) {
	clientLog.Do(func() { klog.SetSlogLogger(slog.New(hushed{log.Handler()})) })
	config, namespace, err := locate(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "spillway"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &Cluster{client, namespace}, nil
}

func locate(kubeconfig string) (config *rest.Config, namespace string, err error) {
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", errors.New("kubeconfig: is empty, and this process runs in no Pod; want the path of a kubeconfig file")
		}
		if err != nil {
			return nil, "", fmt.Errorf("the Pod's service account can't be used: %w", err)
		}
		own, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, "", fmt.Errorf("the Pod's namespace is not known: %w", err)
		}
		return config, strings.TrimSpace(string(own)), nil
	}
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{})
	if config, err = file.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %s can't be used: %w", kubeconfig, err)
	}
	if namespace, _, err = file.Namespace(); err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %s: %w", kubeconfig, err)
	}
	return config, namespace, nil
}

// Source watches for the pool. w was checked.
func (c *Cluster) Source(w Watch) *Source {
	if w.Namespace == "" {
		w.Namespace = c.namespace
	}
	return &Source{watch: w, objects: c.client.Resource(w.resource()).Namespace(w.Namespace)}
}
