package manifest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// checkPod looks at a template: what it mounts, which ports it names, who it is.
func (s Set) checkPod(p *problems, pod Pod) {
	o, spec := pod.Owner, pod.Template.Spec
	own := labels.Set(pod.Template.Labels)
	if pod.Selector != nil {
		if selector, err := metav1.LabelSelectorAsSelector(pod.Selector); err != nil || !selector.Matches(own) {
			p.add(o, "its selector does not find its own Pods")
		}
	}
	for _, spread := range spec.TopologySpreadConstraints {
		if selector, err := metav1.LabelSelectorAsSelector(spread.LabelSelector); err != nil || !selector.Matches(own) {
			p.add(o, "spread over %s: its selector does not find its own Pods", spread.TopologyKey)
		}
	}
	if name := spec.ServiceAccountName; name != "" {
		if _, ok := named[*corev1.ServiceAccount](s, o.GetNamespace(), name); !ok {
			p.add(o, "service account %s is not there", name)
		}
	}
	s.checkVolumes(p, pod)
	names, numbers := map[string]bool{}, map[int32]bool{}
	for _, port := range pod.Ports() {
		if names[port.Name] || numbers[port.ContainerPort] {
			p.add(o, "port %s (%d) is there twice", port.Name, port.ContainerPort)
		}
		names[port.Name], numbers[port.ContainerPort] = true, true
	}
	for _, c := range pod.Containers() {
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if port, ok := probed(probe); ok && !hasPort(c.Ports, port) {
				p.add(o, "container %s: a probe asks port %s, which it has not", c.Name, port.String())
			}
		}
		for _, missing := range lacks(spec, c) {
			p.add(o, "container %s: %s", c.Name, missing)
		}
	}
}

// probed is the port that a probe asks.
func probed(probe *corev1.Probe) (port intstr.IntOrString, ok bool) {
	switch {
	case probe == nil:
		return port, false
	case probe.HTTPGet != nil:
		return probe.HTTPGet.Port, true
	case probe.TCPSocket != nil:
		return probe.TCPSocket.Port, true
	case probe.GRPC != nil:
		return intstr.FromInt32(probe.GRPC.Port), true
	}
	return port, false
}

// checkVolumes finds mounts without a volume, volumes nobody mounts, and keys
// that a ConfigMap has not.
func (s Set) checkVolumes(p *problems, pod Pod) {
	o := pod.Owner
	mounted := map[string]bool{}
	for _, c := range pod.Containers() {
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
			if !slices.ContainsFunc(pod.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				p.add(o, "container %s mounts volume %s, which is not there", c.Name, m.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
				continue
			}
			s.checkKeys(p, o, e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Key)
		}
	}
	for _, v := range pod.Template.Spec.Volumes {
		if !mounted[v.Name] {
			p.add(o, "nobody mounts volume %s", v.Name)
		}
		if v.ConfigMap != nil {
			var keys []string
			for _, item := range v.ConfigMap.Items {
				keys = append(keys, item.Key)
			}
			s.checkKeys(p, o, v.ConfigMap.Name, keys...)
		}
	}
}

func (s Set) checkKeys(p *problems, o Object, name string, keys ...string) {
	source, ok := named[*corev1.ConfigMap](s, o.GetNamespace(), name)
	if !ok {
		p.add(o, "ConfigMap %s is not there", name)
		return
	}
	for _, key := range keys {
		if _, ok := source.Data[key]; !ok {
			p.add(o, "ConfigMap %s has no key %s", name, key)
		}
	}
}

// lacks says what a container has not that the "restricted" Pod security
// standard asks for, and a bound on its memory.
func lacks(pod corev1.PodSpec, c corev1.Container) (missing []string) {
	yes := func(b *bool) bool { return b != nil && *b }
	security := c.SecurityContext
	if security == nil {
		security = &corev1.SecurityContext{}
	}
	whole := pod.SecurityContext
	if whole == nil {
		whole = &corev1.PodSecurityContext{}
	}
	for _, x := range []struct {
		is   bool
		want string
	}{
		{yes(whole.RunAsNonRoot) || yes(security.RunAsNonRoot), "may run as root"},
		{whole.SeccompProfile != nil || security.SeccompProfile != nil, "has no seccomp profile"},
		{yes(security.ReadOnlyRootFilesystem), "may write to its image"},
		{security.AllowPrivilegeEscalation != nil && !*security.AllowPrivilegeEscalation, "may gain privileges"},
		{security.Capabilities != nil && slices.Contains(security.Capabilities.Drop, "ALL"), "keeps capabilities"},
		{!c.Resources.Limits.Memory().IsZero(), "has no limit of memory"},
		{!c.Resources.Requests.Cpu().IsZero(), "requests no CPU"},
	} {
		if !x.is {
			missing = append(missing, x.want)
		}
	}
	for _, m := range c.VolumeMounts {
		if m.MountPath == "" || m.MountPath[0] != '/' {
			missing = append(missing, fmt.Sprintf("mounts %s at %q, which is no path", m.Name, m.MountPath))
		}
	}
	return missing
}
