package manifest

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod is a template of Pods, and whose.
type Pod struct {
	Owner    Object
	Template corev1.PodTemplateSpec
	Selector *metav1.LabelSelector // that its owner finds its Pods by; nil for Jobs
}

// Pods are the templates of a set's workloads.
func (s Set) Pods() []Pod {
	var all []Pod
	for _, o := range s {
		switch o := o.(type) {
		case *appsv1.Deployment:
			all = append(all, Pod{o, o.Spec.Template, o.Spec.Selector})
		case *appsv1.StatefulSet:
			all = append(all, Pod{o, o.Spec.Template, o.Spec.Selector})
		case *appsv1.DaemonSet:
			all = append(all, Pod{o, o.Spec.Template, o.Spec.Selector})
		case *batchv1.Job:
			all = append(all, Pod{o, o.Spec.Template, nil})
		case *batchv1.CronJob:
			all = append(all, Pod{o, o.Spec.JobTemplate.Spec.Template, nil})
		}
	}
	return all
}

// Containers are all of a Pod's, those that begin before the others first.
func (p Pod) Containers() []corev1.Container {
	return slices.Concat(p.Template.Spec.InitContainers, p.Template.Spec.Containers)
}

// Ports are those of all containers.
func (p Pod) Ports() []corev1.ContainerPort {
	var all []corev1.ContainerPort
	for _, c := range p.Containers() {
		all = append(all, c.Ports...)
	}
	return all
}

// Files are what a container finds of the set's ConfigMaps, by path. Those of
// Secrets are empty: only their keys are known.
func (s Set) Files(p Pod, c corev1.Container) map[string]string {
	files := map[string]string{}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			continue
		}
		switch v := p.Template.Spec.Volumes[i]; {
		case v.ConfigMap != nil:
			source, _ := named[*corev1.ConfigMap](s, p.Owner.GetNamespace(), v.ConfigMap.Name)
			if source == nil {
				continue
			}
			for key, text := range source.Data {
				if path, ok := pathOf(v.ConfigMap.Items, key); ok {
					files[m.MountPath+"/"+path] = text
				}
			}
		case v.Secret != nil:
			for _, item := range v.Secret.Items {
				files[m.MountPath+"/"+item.Path] = ""
			}
		}
	}
	return files
}

// pathOf is where a key of a ConfigMap or Secret lies in its volume: under its
// own name where no items choose among the keys.
func pathOf(items []corev1.KeyToPath, key string) (path string, ok bool) {
	if len(items) == 0 {
		return key, true
	}
	for _, item := range items {
		if item.Key == key {
			return item.Path, true
		}
	}
	return "", false
}
