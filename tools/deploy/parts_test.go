package deploy_test

import (
	"cmp"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/spillway-llm/spillway/tools/deploy/manifest"
)

var update = flag.Bool("update", false, "write the files that are generated from others")

// entrypoint is where the image has the binary.
const entrypoint = "/usr/local/bin/spillway"

// config is what of spillway.yaml other objects depend on.
type config struct {
	Access struct {
		AdminTLS string `json:"admin_tls"`
	} `json:"access"`
	Store struct {
		SpoolDir string `json:"spool_dir"`
	} `json:"store"`
	Router struct {
		Listen       string   `json:"listen"`
		Admin        string   `json:"admin"`
		Picker       string   `json:"extproc_listen"`
		Share        string   `json:"share_listen"`
		Peers        []string `json:"peers"`
		DrainDelay   string   `json:"drain_delay"`
		DrainTimeout string   `json:"drain_timeout"`
		Forecast     struct {
			Address string `json:"address"`
		} `json:"forecast"`
		Endpoints []struct {
			URL string `json:"url"`
		} `json:"endpoints"`
		Discovery struct {
			Kubernetes []struct {
				Namespace string `json:"namespace"`
				Service   string `json:"service"`
			} `json:"kubernetes"`
		} `json:"discovery"`
	} `json:"router"`
	Predictor struct {
		InProcess bool   `json:"in_process"`
		Listen    string `json:"listen"`
		Admin     string `json:"admin"`
	} `json:"predictor"`
	Trainer struct {
		Schedule string `json:"schedule"`
		Admin    string `json:"admin"`
	} `json:"trainer"`
}

func readConfig(t *testing.T, text string) (c config) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// checkParts runs what each container runs, and compares what it was configured
// to do with what the objects around it expect.
func checkParts(t *testing.T, set manifest.Set) {
	t.Helper()
	for _, pod := range set.Pods() {
		for _, c := range pod.Containers() {
			files := set.Files(pod, c)
			if len(c.Command) > 0 {
				t.Errorf("%s: container %s has a command of its own: the image has but one program", manifest.Name(pod.Owner), c.Name)
			}
			run(t, c.Args, files)
			config := readConfig(t, files["/etc/spillway/spillway.yaml"])
			checkListeners(t, pod, c, config)
			checkProbes(t, pod, c, config)
			if c.Name == "router" {
				checkRouter(t, set, pod, c, config)
			}
		}
	}
}

// run runs what a container runs, so far as that is harmless: a command that
// reads a configuration checks it, another says how it is used. Both name a verb
// or flag that does not exist.
func run(t *testing.T, args []string, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	inside := func(text string) string {
		for path := range files {
			text = strings.ReplaceAll(text, path, dir+path)
		}
		return text
	}
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(dir+path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+path, []byte(inside(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	harmless := "--help"
	if slices.Contains(args, "--config") {
		harmless = "--check-config"
	}
	var moved []string
	for _, arg := range args {
		moved = append(moved, inside(arg))
	}
	binary := os.Getenv("SPILLWAY_BINARY")
	if binary == "" {
		t.Fatal("SPILLWAY_BINARY is not set: make verify-deploy names the program in it")
	}
	cmd := exec.Command(binary, append(moved, harmless)...)
	cmd.Env = []string{"DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "HOSTNAME=pod"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("spillway %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// checkListeners compares the ports of a container with the addresses it was
// told to listen on.
func checkListeners(t *testing.T, pod manifest.Pod, c corev1.Container, config config) {
	t.Helper()
	var want []string
	switch c.Name {
	case "router":
		want = []string{config.Router.Listen, config.Router.Admin, config.Router.Picker, config.Router.Share}
	case "predictor":
		want = []string{config.Predictor.Admin}
	case "trainer":
		if !slices.Contains(c.Args, "--once") {
			want = []string{config.Trainer.Admin}
		}
	}
	want = slices.DeleteFunc(want, func(address string) bool { return address == "" })
	var got []string
	for _, port := range c.Ports {
		got = append(got, fmt.Sprintf(":%d", port.ContainerPort))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: container %s has ports %v and is told to listen on %v", manifest.Name(pod.Owner), c.Name, got, want)
	}
}

// checkProbes compares how a container is asked for its health with how its admin
// listener answers.
func checkProbes(t *testing.T, pod manifest.Pod, c corev1.Container, config config) {
	t.Helper()
	scheme := corev1.URISchemeHTTP
	if tls := config.Access.AdminTLS; tls != "" && tls != "off" {
		scheme = corev1.URISchemeHTTPS
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe == nil {
			continue
		}
		if ask := probe.HTTPGet; ask == nil || ask.Path != "/healthz" && ask.Path != "/readyz" || cmp.Or(ask.Scheme, corev1.URISchemeHTTP) != scheme {
			t.Errorf("%s: container %s is asked %+v, want /healthz or /readyz by %s", manifest.Name(pod.Owner), c.Name, probe.ProbeHandler, scheme)
		}
	}
	if probe := c.LivenessProbe; probe != nil && probe.HTTPGet.Path != "/healthz" {
		t.Errorf("%s: container %s is killed when it is not ready", manifest.Name(pod.Owner), c.Name)
	}
}

func checkRouter(t *testing.T, set manifest.Set, pod manifest.Pod, c corev1.Container, config config) {
	t.Helper()
	var drain time.Duration
	for _, text := range []string{config.Router.DrainDelay, config.Router.DrainTimeout} {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		drain += d
	}
	if grace := time.Duration(*pod.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= drain+10*time.Second {
		t.Errorf("%s: is killed after %s and needs %s to drain, 5 s to cut off what is left and 5 s for the last rows", manifest.Name(pod.Owner), grace, drain)
	}
	if !writable(pod, c, config.Store.SpoolDir) {
		t.Errorf("%s: the router cannot write to %s", manifest.Name(pod.Owner), config.Store.SpoolDir)
	}
	if !config.Predictor.InProcess {
		if config.Router.Forecast.Address != config.Predictor.Listen {
			t.Errorf("the router asks %s and the predictor listens on %s", config.Router.Forecast.Address, config.Predictor.Listen)
		}
		socket := strings.TrimPrefix(config.Predictor.Listen, "unix://")
		predictors := 0
		for _, other := range pod.Containers() {
			if writable(pod, other, socket) {
				predictors++
			}
		}
		if predictors != 2 {
			t.Errorf("%s: %d containers share the folder of %s, want the router and the predictor", manifest.Name(pod.Owner), predictors, socket)
		}
	}
	for _, peer := range config.Router.Peers {
		host, port, err := net.SplitHostPort(peer)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(manifest.Of[*corev1.Service](set), func(s *corev1.Service) bool {
			return s.Name == host && s.Namespace == pod.Owner.GetNamespace() && s.Spec.ClusterIP == corev1.ClusterIPNone &&
				slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return fmt.Sprint(p.Port) == port })
		})
		if i < 0 {
			t.Errorf("router.peers: no headless Service is %s", peer)
		}
	}
	checkPermission(t, set, pod, config)
}

// writable reports whether a path lies on a volume that a container may write.
func writable(pod manifest.Pod, c corev1.Container, path string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return !m.ReadOnly && strings.HasPrefix(path, m.MountPath+"/") &&
			slices.ContainsFunc(pod.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.EmptyDir != nil })
	})
}

// checkPermission compares what the router watches with what its account may:
// that, and nothing else.
func checkPermission(t *testing.T, set manifest.Set, pod manifest.Pod, config config) {
	t.Helper()
	var want, got []string
	for _, watch := range config.Router.Discovery.Kubernetes {
		namespace, resource := watch.Namespace, "/pods"
		if namespace == "" {
			namespace = pod.Owner.GetNamespace()
		}
		if watch.Service != "" {
			resource = "discovery.k8s.io/endpointslices"
		}
		for _, verb := range []string{"list", "watch"} {
			want = append(want, strings.Join([]string{namespace, verb, resource}, " "))
		}
	}
	account := pod.Template.Spec.ServiceAccountName
	for _, binding := range manifest.Of[*rbacv1.RoleBinding](set) {
		if binding.Subjects[0].Name != account || binding.Subjects[0].Namespace != pod.Owner.GetNamespace() {
			continue
		}
		for _, role := range manifest.Of[*rbacv1.Role](set) {
			if role.Name != binding.RoleRef.Name || role.Namespace != binding.Namespace {
				continue
			}
			for _, rule := range role.Rules {
				for _, verb := range rule.Verbs {
					got = append(got, strings.Join([]string{role.Namespace, verb, rule.APIGroups[0] + "/" + rule.Resources[0]}, " "))
				}
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("%s: its account may %v and it must %v", manifest.Name(pod.Owner), got, want)
	}
	if token := pod.Template.Spec.AutomountServiceAccountToken; token == nil || *token != (len(want) > 0) {
		t.Errorf("%s: wants a token where it watches something, and only there", manifest.Name(pod.Owner))
	}
}
