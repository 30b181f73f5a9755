package manifest_test

import (
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/tools/deploy/manifest"
)

// good has one of most kinds, and nothing wrong.
const good = `# comments alone are no document
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: a}
data: {file.yaml: "x: 1"}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: who, namespace: a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: may, namespace: b}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: may, namespace: b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: may}
subjects: [{kind: ServiceAccount, name: who, namespace: a}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: who
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers:
        - name: main
          image: example.org/web:1
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          resources: {requests: {cpu: 100m}, limits: {memory: 64Mi}}
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /, port: http}}
          volumeMounts: [{name: files, mountPath: /etc/web}]
      volumes: [{name: files, configMap: {name: config, items: [{key: file.yaml, path: web.yaml}]}}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: a, labels: {app: web}}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: a}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: a}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: http}]}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: a}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
  metrics: [{type: ContainerResource, containerResource: {name: cpu, container: main, target: {type: Utilization, averageUtilization: 70}}}]
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: web, namespace: a}
spec: {selector: {matchLabels: {app: web}}, endpoints: [{port: http}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: web, namespace: a}
spec: {groups: [{name: web, rules: [{alert: Down, expr: up == 0}]}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool, namespace: a}
spec:
  selector: {matchLabels: {app: vllm}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {kind: Service, name: web, port: {number: 80}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route, namespace: a}
spec:
  parentRefs: [{name: gateway}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: pool}]}]
`

func TestNothingIsWrong(t *testing.T) {
	set, err := manifest.Decode([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(set) != 13 {
		t.Errorf("%d objects, want 13", len(set))
	}
	for _, problem := range set.Check() {
		t.Error(problem)
	}
	pod := set.Pods()[0]
	if files := set.Files(pod, pod.Containers()[0]); files["/etc/web/web.yaml"] != "x: 1" {
		t.Errorf("the container finds %q", files)
	}
}

// What an API server would not take is not taken here.
func TestDecodeIsStrict(t *testing.T) {
	for _, x := range []struct{ name, old, new, want string }{
		{"a field that the type has not", "maxUnavailable: 1,", "maxUnavailable: 1, minAvailabel: 1,", "minAvailabel"},
		{"a field of a custom resource", "targetPorts: [{number", "targetPorts: [{port: 1, number", "port"},
		{"a field of an operator's", "endpoints: [{port: http", "endpoints: [{prot: x, port: http", "prot"},
		{"a field twice", "maxReplicas: 3", "maxReplicas: 3\n  maxReplicas: 4", "maxReplicas"},
		{"a value of another type", "containerPort: 8080", "containerPort: http", "containerPort"},
		{"a kind nobody knows", "kind: Service\n", "kind: Servise\n", "Servise"},
		{"a version that is gone", "autoscaling/v2", "autoscaling/v2beta2", "autoscaling/v2beta2"},
		{"no name", "metadata: {name: who, namespace: a}", "metadata: {namespace: a}", "no name"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if !strings.Contains(good, x.old) {
				t.Fatalf("%q is not there to be changed", x.old)
			}
			_, err := manifest.Decode([]byte(strings.Replace(good, x.old, x.new, 1)))
			if err == nil || !strings.Contains(err.Error(), x.want) || !strings.HasPrefix(err.Error(), "document ") {
				t.Errorf("got %v, want an error that names the document and %s", err, x.want)
			}
		})
	}
}

// Each mistake is found, and nothing else is said.
func TestCheckFinds(t *testing.T) {
	for _, x := range []struct{ old, new, want string }{
		{"selector: {matchLabels: {app: web}}\n  template", "selector: {matchLabels: {app: wbe}}\n  template", "Deployment a/web: its selector does not find its own Pods"},
		{"labelSelector: {matchLabels: {app: web}}", "labelSelector: {matchLabels: {app: wbe}}", "Deployment a/web: spread over kubernetes.io/hostname: its selector does not find its own Pods"},
		{"serviceAccountName: who", "serviceAccountName: else", "Deployment a/web: service account else is not there"},
		{"port: http}}\n", "port: admin}}\n", "Deployment a/web: container main: a probe asks port admin, which it has not"},
		{"readinessProbe: {httpGet: {path: /, port: http}}", "livenessProbe: {grpc: {port: 9}}", "Deployment a/web: container main: a probe asks port 9, which it has not"},
		{"volumeMounts: [{name: files,", "volumeMounts: [{name: files, mountPath: /x}, {name: other,", "Deployment a/web: container main mounts volume other, which is not there"},
		{"volumes: [{name: files,", "volumes: [{name: spare, emptyDir: {}}, {name: files,", "Deployment a/web: nobody mounts volume spare"},
		{"configMap: {name: config,", "configMap: {name: gone,", "Deployment a/web: ConfigMap gone is not there"},
		{"items: [{key: file.yaml,", "items: [{key: file.yml,", "Deployment a/web: ConfigMap config has no key file.yml"},
		{"ports: [{name: http, containerPort: 8080}]", "ports: [{name: http, containerPort: 8080}, {name: more, containerPort: 8080}]", "Deployment a/web: port more (8080) is there twice"},
		{"runAsNonRoot: true, ", "", "Deployment a/web: container main: may run as root"},
		{", seccompProfile: {type: RuntimeDefault}", "", "Deployment a/web: container main: has no seccomp profile"},
		{"readOnlyRootFilesystem: true, ", "", "Deployment a/web: container main: may write to its image"},
		{"allowPrivilegeEscalation: false, ", "", "Deployment a/web: container main: may gain privileges"},
		{"drop: [ALL]", "drop: [NET_RAW]", "Deployment a/web: container main: keeps capabilities"},
		{"limits: {memory: 64Mi}", "limits: {cpu: 1}", "Deployment a/web: container main: has no limit of memory"},
		{"targetPort: http", "targetPort: 8081", "Service a/web: port http: Deployment a/web has no port 8081"},
		{"spec: {selector: {app: web}, ports", "spec: {selector: {app: wbe}, ports", "Service a/web: selects no Pod: app=wbe"},
		{"maxUnavailable: 1, selector: {matchLabels: {app: web}}", "maxUnavailable: 1, selector: {matchLabels: {app: wbe}}", "PodDisruptionBudget a/web: selects no Pod: app=wbe"},
		{"ingress: [{ports: [{port: http}]}]", "ingress: [{ports: [{port: admin}]}]", "NetworkPolicy a/web: Deployment a/web has no port admin"},
		{"kind: Deployment, name: web", "kind: Deployment, name: wbe", "HorizontalPodAutoscaler a/web: scales Deployment wbe, which is not there"},
		{"container: main", "container: other", "HorizontalPodAutoscaler a/web: looks at container other, which Deployment a/web has not"},
		{"kind: Role, name: may", "kind: Role, name: might", "RoleBinding b/may: binds role might, which is not there"},
		{"name: who, namespace: a}]", "name: who, namespace: b}]", "RoleBinding b/may: service account b/who is not there"},
		{"endpoints: [{port: http}]", "endpoints: [{port: metrics}]", `ServiceMonitor a/web: Service a/web has no port "metrics"`},
		{"spec: {selector: {matchLabels: {app: web}}, endpoints", "spec: {selector: {matchLabels: {app: wbe}}, endpoints", "ServiceMonitor a/web: selects no Service: app=wbe"},
		{"kind: PrometheusRule\nmetadata: {name: web, namespace: a}", "kind: PrometheusRule\nmetadata: {name: web, namespace: a, labels: {v: " + strings.Repeat("v", 64) + "}}", "PrometheusRule a/web: label v: must be no more than 63 bytes"},
		{"kind: PodDisruptionBudget\nmetadata: {name: web, ", "kind: PodDisruptionBudget\nmetadata: {name: " + strings.Repeat("w", 254) + ", ", "PodDisruptionBudget a/" + strings.Repeat("w", 254) + ": its name: must be no more than 253 characters"},
		{"spec: {groups: [{name: web, rules: [{alert: Down, expr: up == 0}]}]}", "spec: {}", "PrometheusRule a/web: has no groups"},
		{"endpointPickerRef: {kind: Service, name: web, port: {number: 80}}", "endpointPickerRef: {kind: Service, name: wbe, port: {number: 80}}", "InferencePool a/pool: endpoint picker: Service wbe is not there"},
		{"endpointPickerRef: {kind: Service, name: web, port: {number: 80}}", "endpointPickerRef: {kind: Service, name: web, port: {number: 81}}", "InferencePool a/pool: endpoint picker: Service a/web has no port 81"},
		{"endpointPickerRef: {kind: Service, name: web, port: {number: 80}}", "endpointPickerRef: {kind: Service, name: web}", "InferencePool a/pool: endpoint picker: a Service needs a port"},
		{"kind: InferencePool, name: pool}", "kind: InferencePool, name: other}", "HTTPRoute a/route: backend other is not there"},
		{"metadata: {name: who, namespace: a}", "metadata: {name: who, namespace: a}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: who, namespace: a}", "ServiceAccount a/who: is there twice"},
	} {
		t.Run(x.want, func(t *testing.T) {
			if !strings.Contains(good, x.old) {
				t.Fatalf("%q is not there to be changed", x.old)
			}
			set, err := manifest.Decode([]byte(strings.Replace(good, x.old, x.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := set.Check(); len(got) != 1 || got[0] != x.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
