package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-llm/spillway/router/pool"
)

// found gathers the endpoints of many objects. One address may be named by
// several: an endpoint that moves from one slice to another stands in both for
// a while, and a Pod that ended may still hold the address of one that runs. A
// ready one goes before one that drains.
type found struct {
	endpoints  map[string]pool.Endpoint
	complaints []error
}

func (f *found) add(m *marked, host string, port int, terminating bool) {
	e := m.At(host, port)
	e.Draining = terminating || m.drain
	if before, ok := f.endpoints[e.ID]; !ok || before.Draining && !e.Draining {
		f.endpoints[e.ID] = e
	}
}

// complain says something once.
func (f *found) complain(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if !slices.ContainsFunc(f.complaints, func(c error) bool { return c.Error() == err.Error() }) {
		f.complaints = append(f.complaints, err)
	}
}

// news is all that was found, by address.
func (f *found) news() pool.News {
	n := pool.News{Endpoints: make([]pool.Endpoint, 0, len(f.endpoints)), Complaints: f.complaints}
	for _, id := range slices.Sorted(maps.Keys(f.endpoints)) {
		n.Endpoints = append(n.Endpoints, f.endpoints[id])
	}
	return n
}

// ordered reads the objects an informer keeps, by name, so that the same objects
// give the same news.
func ordered[T any](f *found, objects []any, of func(*T) *meta) []T {
	var all []T
	for _, o := range objects {
		one, err := decode[T](o)
		if err != nil {
			f.complain("%w", err)
			continue
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b T) int {
		x, y := of(&a), of(&b)
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	return all
}

// chosen are the ports that are wanted, each a name or a number, of those there
// are: the only one where none is named.
func chosen(wanted []string, there []port) (numbers []int, err error) {
	there = slices.DeleteFunc(slices.Clone(there), func(p port) bool { return p.Protocol != "" && p.Protocol != "TCP" })
	list := func() string {
		names := make([]string, 0, len(there))
		for _, p := range there {
			names = append(names, p.String())
		}
		return cmp.Or(strings.Join(names, ", "), "none")
	}
	if len(wanted) == 0 {
		if len(there) != 1 {
			return nil, fmt.Errorf("has %d ports where one is wanted: name those of the engine under the key ports; it lists %s", len(there), list())
		}
		return []int{there[0].Port}, nil
	}
	for _, w := range wanted {
		i := slices.IndexFunc(there, func(p port) bool { return p.Name == w || strconv.Itoa(p.Port) == w })
		if i < 0 {
			return nil, fmt.Errorf("has no port %s; it lists %s", w, list())
		}
		numbers = append(numbers, there[i].Port)
	}
	return numbers, nil
}

// behindService finds the endpoints of a Service's slices.
func (w *Watch) behindService(objects []any) pool.News {
	f := found{endpoints: map[string]pool.Endpoint{}}
	all := ordered(&f, objects, func(s *slice) *meta { return &s.Meta })
	// A Service of both address families has every Pod twice.
	family := "IPv6"
	for i := range all {
		if all[i].AddressType == "IPv4" && len(all[i].Endpoints) > 0 {
			family = "IPv4"
		}
	}
	for i := range all {
		s := &all[i]
		if s.AddressType != family || len(s.Endpoints) == 0 {
			continue
		}
		m, err := s.Meta.marks(w.Traits)
		if err != nil {
			f.complain("EndpointSlice %s/%s: %w", s.Meta.Namespace, s.Meta.Name, err)
			continue
		}
		ports, err := chosen(w.Ports, s.Ports)
		if err != nil {
			f.complain("service %s/%s %w", w.Namespace, w.Service, err)
			continue
		}
		if m.out {
			continue
		}
		for _, e := range s.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			serving := ready
			if e.Conditions.Serving != nil {
				serving = *e.Conditions.Serving
			}
			terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
			if len(e.Addresses) == 0 || !ready && !(terminating && serving) {
				continue
			}
			for _, p := range ports {
				f.add(&m, e.Addresses[0], p, terminating)
			}
		}
	}
	if len(all) == 0 {
		f.complain("service %s/%s has no EndpointSlices: does it exist, and has it a selector?", w.Namespace, w.Service)
	}
	return f.news()
}

// amongPods finds the endpoints of Pods.
func (w *Watch) amongPods(objects []any) pool.News {
	f := found{endpoints: map[string]pool.Endpoint{}}
	all := ordered(&f, objects, func(p *pod) *meta { return &p.Meta })
	for i := range all {
		p := &all[i]
		ready := slices.ContainsFunc(p.Status.Conditions, func(c struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		}) bool {
			return c.Type == "Ready" && c.Status == "True"
		})
		if !ready || p.Status.PodIP == "" {
			continue
		}
		m, err := p.Meta.marks(w.Traits)
		if err != nil {
			f.complain("pod %s/%s: %w", p.Meta.Namespace, p.Meta.Name, err)
			continue
		}
		if m.out {
			continue
		}
		ports, err := chosen(w.Ports, p.ports(w.Ports))
		if err != nil {
			f.complain("pod %s/%s %w", p.Meta.Namespace, p.Meta.Name, err)
			continue
		}
		for _, port := range ports {
			f.add(&m, p.Status.PodIP, port, p.Meta.DeletionTimestamp != "")
		}
	}
	return f.news()
}

// ports are those that a Pod lists. It need not list any: a number that is
// wanted is there.
func (p *pod) ports(wanted []string) (all []port) {
	for _, containers := range [][]container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range containers {
			for _, x := range c.Ports {
				all = append(all, port{x.Name, x.ContainerPort, x.Protocol})
			}
		}
	}
	for _, w := range wanted {
		if n, err := strconv.Atoi(w); err == nil {
			all = append(all, port{Port: n})
		}
	}
	return all
}
