package main

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/pool/dns"
	"github.com/spillway-llm/spillway/router/pool/kube"
)

// DiscoveryConfig says where endpoints are found that nobody lists.
type DiscoveryConfig struct {
	Kubeconfig string       `yaml:"kubeconfig"` // path of the file that names the API server; empty: that of the cluster the router runs in
	Kubernetes []kube.Watch `yaml:"kubernetes"` // Services, or Pods by their labels
	DNS        []dns.Query  `yaml:"dns"`        // names that stand for endpoints
}

func defaultDiscovery() DiscoveryConfig {
	return DiscoveryConfig{Kubernetes: []kube.Watch{}, DNS: []dns.Query{}}
}

// empty reports whether nothing is looked for.
func (d *DiscoveryConfig) empty() bool { return len(d.Kubernetes) == 0 && len(d.DNS) == 0 }

// check reports the first value that can't work, by its key. It asks nobody.
func (d *DiscoveryConfig) check() error {
	var names []string
	twice := func(key, name string) error {
		if slices.Contains(names, name) {
			return fmt.Errorf("router.discovery.%s: %s is there twice", key, name)
		}
		names = append(names, name)
		return nil
	}
	for i := range d.Kubernetes {
		w := &d.Kubernetes[i]
		key := fmt.Sprintf("kubernetes[%d]", i)
		if err := w.Check(); err != nil {
			return fmt.Errorf("router.discovery.%s.%w", key, err)
		}
		if err := twice(key, w.String()); err != nil {
			return err
		}
	}
	for i := range d.DNS {
		q := &d.DNS[i]
		key := fmt.Sprintf("dns[%d]", i)
		if err := q.Check(); err != nil {
			return fmt.Errorf("router.discovery.%s.%w", key, err)
		}
		if err := twice(key, dns.New(*q).String()); err != nil {
			return err
		}
	}
	return nil
}

// sources are what a router's pool hears of endpoints from. d was checked.
func (d *DiscoveryConfig) sources(log *slog.Logger) (all []pool.Source, err error) {
	if len(d.Kubernetes) > 0 {
		cluster, err := kube.Connect(d.Kubeconfig, log)
		if err != nil {
			return nil, fmt.Errorf("router.discovery.%w", err)
		}
		for _, w := range d.Kubernetes {
			all = append(all, cluster.Source(w))
		}
	}
	for _, q := range d.DNS {
		all = append(all, dns.New(q))
	}
	return all, nil
}
