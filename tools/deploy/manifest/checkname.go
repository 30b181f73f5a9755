package manifest

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// mostCronJobName leaves room for what a CronJob appends to the names of its Jobs,
// which are labels of their Pods.
const mostCronJobName = validation.DNS1035LabelMaxLength - 11

// checkName says what an API server would not take as a name or a label.
func checkName(p *problems, o Object) {
	valid := validation.IsDNS1123Subdomain
	if _, ok := o.(*corev1.Service); ok {
		valid = validation.IsDNS1035Label
	}
	for _, problem := range valid(o.GetName()) {
		p.add(o, "its name: %s", problem)
	}
	if _, ok := o.(*batchv1.CronJob); ok && len(o.GetName()) > mostCronJobName {
		p.add(o, "its name: must be no more than %d bytes", mostCronJobName)
	}
	for key, value := range o.GetLabels() {
		for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			p.add(o, "label %s: %s", key, problem)
		}
	}
}
