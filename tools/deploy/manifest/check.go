package manifest

import (
	"fmt"
	"reflect"
	"slices"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// problems gathers what is wrong, one sentence each.
type problems []string

func (p *problems) add(o Object, format string, args ...any) {
	*p = append(*p, Name(o)+": "+fmt.Sprintf(format, args...))
}

// Check says what in the set refers to something that is not there: ports,
// volumes, keys of ConfigMaps, Services, roles, accounts, selectors; where a name or
// a label can't be one; and where a container may more than it needs. Secrets, PersistentVolumeClaims and Gateways
// are others' and are not looked for.
func (s Set) Check() []string {
	var p problems
	seen := map[string]bool{}
	for _, o := range s {
		if seen[Name(o)] {
			p.add(o, "is there twice")
		}
		seen[Name(o)] = true
		checkName(&p, o)
	}
	for _, pod := range s.Pods() {
		s.checkPod(&p, pod)
	}
	for _, o := range s {
		switch o := o.(type) {
		case *corev1.Service:
			s.checkService(&p, o)
		case *policyv1.PodDisruptionBudget:
			s.selected(&p, o, o.Spec.Selector)
		case *networkingv1.NetworkPolicy:
			s.checkNetworkPolicy(&p, o)
		case *autoscalingv2.HorizontalPodAutoscaler:
			s.checkAutoscaler(&p, o)
		case *rbacv1.RoleBinding:
			s.checkRoleBinding(&p, o)
		case *monitoringv1.ServiceMonitor:
			s.checkServiceMonitor(&p, o)
		case *monitoringv1.PrometheusRule:
			if len(o.Spec.Groups) == 0 {
				p.add(o, "has no groups")
			}
		case *inferencev1.InferencePool:
			s.checkPool(&p, o)
		case *gatewayv1.HTTPRoute:
			s.checkRoute(&p, o)
		}
	}
	return p
}

// matching are the Pods of a namespace that a selector finds.
func (s Set) matching(namespace string, selector labels.Selector) []Pod {
	var all []Pod
	for _, pod := range s.Pods() {
		if pod.Owner.GetNamespace() == namespace && !selector.Empty() && selector.Matches(labels.Set(pod.Template.Labels)) {
			all = append(all, pod)
		}
	}
	return all
}

// selected are the Pods that an object selects, of which there must be some.
func (s Set) selected(p *problems, o Object, by *metav1.LabelSelector) []Pod {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		p.add(o, "selector: %v", err)
		return nil
	}
	pods := s.matching(o.GetNamespace(), selector)
	if len(pods) == 0 {
		p.add(o, "selects no Pod: %s", selector)
	}
	return pods
}

// hasPort reports whether one of a Pod's containers has this port.
func hasPort(ports []corev1.ContainerPort, want intstr.IntOrString) bool {
	return slices.ContainsFunc(ports, func(port corev1.ContainerPort) bool {
		return want.Type == intstr.String && port.Name == want.StrVal || want.Type == intstr.Int && port.ContainerPort == want.IntVal
	})
}

func (s Set) checkService(p *problems, o *corev1.Service) {
	pods := s.selected(p, o, &metav1.LabelSelector{MatchLabels: o.Spec.Selector})
	for _, port := range o.Spec.Ports {
		target := port.TargetPort
		if target == (intstr.IntOrString{}) {
			target = intstr.FromInt32(port.Port)
		}
		for _, pod := range pods {
			if !hasPort(pod.Ports(), target) {
				p.add(o, "port %s: %s has no port %s", port.Name, Name(pod.Owner), target.String())
			}
		}
	}
}

func (s Set) checkNetworkPolicy(p *problems, o *networkingv1.NetworkPolicy) {
	pods := s.selected(p, o, &o.Spec.PodSelector)
	for _, rule := range o.Spec.Ingress {
		for _, port := range rule.Ports {
			for _, pod := range pods {
				if port.Port != nil && !hasPort(pod.Ports(), *port.Port) {
					p.add(o, "%s has no port %s", Name(pod.Owner), port.Port)
				}
			}
		}
	}
}

func (s Set) checkAutoscaler(p *problems, o *autoscalingv2.HorizontalPodAutoscaler) {
	target := o.Spec.ScaleTargetRef
	i := slices.IndexFunc(s, func(other Object) bool {
		return other.GetName() == target.Name && other.GetNamespace() == o.Namespace && reflect.TypeOf(other).Elem().Name() == target.Kind
	})
	if i < 0 {
		p.add(o, "scales %s %s, which is not there", target.Kind, target.Name)
		return
	}
	for _, pod := range s.Pods() {
		if pod.Owner != s[i] {
			continue
		}
		for _, m := range o.Spec.Metrics {
			if m.ContainerResource == nil {
				continue
			}
			at := slices.IndexFunc(pod.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == m.ContainerResource.Container })
			if at < 0 {
				p.add(o, "looks at container %s, which %s has not", m.ContainerResource.Container, Name(s[i]))
			} else if _, ok := pod.Template.Spec.Containers[at].Resources.Requests[m.ContainerResource.Name]; !ok {
				p.add(o, "wants a share of the %s that container %s requests, which is none", m.ContainerResource.Name, m.ContainerResource.Container)
			}
		}
	}
}

func (s Set) checkRoleBinding(p *problems, o *rbacv1.RoleBinding) {
	if o.RoleRef.Kind == "Role" {
		if _, ok := named[*rbacv1.Role](s, o.Namespace, o.RoleRef.Name); !ok {
			p.add(o, "binds role %s, which is not there", o.RoleRef.Name)
		}
	}
	for _, subject := range o.Subjects {
		if _, ok := named[*corev1.ServiceAccount](s, subject.Namespace, subject.Name); subject.Kind == rbacv1.ServiceAccountKind && !ok {
			p.add(o, "service account %s/%s is not there", subject.Namespace, subject.Name)
		}
	}
}

func (s Set) checkServiceMonitor(p *problems, o *monitoringv1.ServiceMonitor) {
	selector, err := metav1.LabelSelectorAsSelector(&o.Spec.Selector)
	if err != nil {
		p.add(o, "selector: %v", err)
		return
	}
	found := false
	for _, service := range Of[*corev1.Service](s) {
		if service.Namespace != o.Namespace || !selector.Matches(labels.Set(service.Labels)) {
			continue
		}
		found = true
		for _, endpoint := range o.Spec.Endpoints {
			if !slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Name == endpoint.Port }) {
				p.add(o, "%s has no port %q", Name(service), endpoint.Port)
			}
		}
	}
	if !found {
		p.add(o, "selects no Service: %s", selector)
	}
}

func (s Set) checkPool(p *problems, o *inferencev1.InferencePool) {
	picker := o.Spec.EndpointPickerRef
	service, ok := named[*corev1.Service](s, o.Namespace, string(picker.Name))
	switch {
	case !ok:
		p.add(o, "endpoint picker: Service %s is not there", picker.Name)
	case picker.Port == nil:
		p.add(o, "endpoint picker: a Service needs a port")
	case !slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Port == int32(picker.Port.Number) }):
		p.add(o, "endpoint picker: %s has no port %d", Name(service), picker.Port.Number)
	}
}

func (s Set) checkRoute(p *problems, o *gatewayv1.HTTPRoute) {
	for _, rule := range o.Spec.Rules {
		for _, ref := range rule.BackendRefs {
			var ok bool
			switch kind := ref.Kind; {
			case kind != nil && *kind == "InferencePool" && ref.Group != nil && string(*ref.Group) == inferencev1.GroupName:
				_, ok = named[*inferencev1.InferencePool](s, o.Namespace, string(ref.Name))
			case kind == nil || *kind == "Service":
				_, ok = named[*corev1.Service](s, o.Namespace, string(ref.Name))
			}
			if !ok {
				p.add(o, "backend %s is not there", ref.Name)
			}
		}
	}
}
