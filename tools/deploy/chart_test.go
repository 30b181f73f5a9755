// Package deploy_test checks what deploy/ has for containers and clusters against
// the types of those who will read it, and against the real binary.
package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/tools/deploy/manifest"
)

const (
	root  = "../.."
	chart = root + "/deploy/helm/spillway"
)

// variants are the releases that are rendered: by name, the files of values.
var variants = []struct {
	name   string
	values []string
}{
	{"defaults", nil},
	{"small", []string{chart + "/values-small.yaml"}},
	{"medium", []string{chart + "/values-medium.yaml"}},
	{"large", []string{chart + "/values-large.yaml"}},
	{"pool", []string{"testdata/pool.yaml"}},
	{"large-pool", []string{chart + "/values-large.yaml", "testdata/pool.yaml"}},
	{"all", []string{"testdata/all.yaml"}},
	{"bare", []string{"testdata/bare.yaml"}},
}

// helm runs Helm, which make verify-deploy builds.
func helm(t testing.TB, args ...string) (out string, err error) {
	t.Helper()
	binary := os.Getenv("HELM")
	if binary == "" {
		t.Fatal("HELM is not set: make verify-deploy names the program in it")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// Nothing of who runs this: no plugins, no repositories, no cluster.
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_DATA_HOME="+home, "KUBECONFIG="+home+"/none")
	if err = cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// render renders the chart.
func render(t testing.TB, namespace string, values []string, more ...string) string {
	t.Helper()
	args := []string{"template", "spillway", chart, "--namespace", namespace}
	for _, file := range values {
		args = append(args, "--values", file)
	}
	out, err := helm(t, append(args, more...)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, out)
	}
	return out
}

// decode decodes manifests and checks what they refer to.
func decode(t testing.TB, rendered string) manifest.Set {
	t.Helper()
	set, err := manifest.Decode([]byte(rendered))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range set.Check() {
		t.Error(problem)
	}
	return set
}

func TestChartIsLinted(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			args := []string{"lint", "--strict", chart}
			for _, file := range v.values {
				args = append(args, "--values", file)
			}
			if out, err := helm(t, args...); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestChartIsDeployable(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			set := decode(t, render(t, "llm", v.values))
			for _, o := range set {
				if ns := o.GetNamespace(); ns != "llm" && !(v.name == "all" && ns == "batch") {
					t.Errorf("%s: want namespace llm", manifest.Name(o))
				}
			}
			checkParts(t, set)
		})
	}
}

// Values that cannot work are refused with the key that is wrong.
func TestChartRefuses(t *testing.T) {
	for _, x := range []struct{ name, set, want string }{
		{"an unknown key", "router.replica=3", "replica"},
		{"an unknown mode", "trainer.mode=cron", "/trainer/mode"},
		{"an address of its own", "config.router.listen=:9", "config.router.listen"},
		{"a schedule that no CronJob has", "trainer.schedule=@every 5m", "trainer.schedule"},
		{"a schedule of its own", "config.trainer.schedule=@every 20s", "config.trainer.schedule"},
		{"drain times of its own", "config.router.drain_timeout=9m", "config.router.drain_timeout"},
		{"a profile that is no file's name", "profiles.h100=abc", "/profiles"},
		{"more routers than at most", "autoscaling.enabled=true,autoscaling.minReplicas=9", "autoscaling.minReplicas"},
		{"no address at all", "config.router.admin=", "config.router.admin"},
		{"another mode than the value says", "config.predictor.in_process=false", "config.predictor.in_process"},
		{"TLS between routers of its own", "config.router.share_tls=mutual", "config.router.share_tls"},
		{"a predictor by word", "config.predictor=in-process", "predictor.mode"},
		{"a route to nowhere", "inferencePool.enabled=true,inferencePool.httpRoute.enabled=true", "inferencePool.httpRoute.parentRefs"},
		{"a configuration of nobody", "configMap.create=false", "configMap.name"},
		{"mutual TLS without certificates", "share.tls=mutual", "share.tlsSecret"},
		{"TLS without certificates", "access.adminTLS=server", "access.tlsSecret"},
		{"access without its Secret", "config.access.admin_token_file=/tmp/token", "config.access.admin_token_file"},
	} {
		t.Run(x.name, func(t *testing.T) {
			out, err := helm(t, "template", "spillway", chart, "--set", x.set)
			if err == nil || !strings.Contains(out, x.want) {
				t.Errorf("--set %s: %v, want an error that names %s\n%s", x.set, err, x.want, out)
			}
		})
	}
}

// A release of another name keeps its objects apart from the first.
func TestChartHasItsReleasesName(t *testing.T) {
	out, err := helm(t, "template", "blue", chart, "--namespace", "llm")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, o := range decode(t, out) {
		if !strings.HasPrefix(o.GetName(), "blue-spillway") {
			t.Errorf("%s: want a name that begins with blue-spillway", manifest.Name(o))
		}
	}
}

// Releases of one name in two namespaces may watch the same engines.
func TestReleasesShareEngines(t *testing.T) {
	engines := []string{"--set", "engines[0].service=vllm,engines[0].namespace=engines,engines[0].ports={8000}"}
	decode(t, render(t, "blue", nil, engines...)+"\n---\n"+render(t, "green", nil, engines...))
}

// Names are short enough for all objects, and labels are labels, also at Helm's
// longest name of a release and a tag as long as registries take.
func TestChartHasNamesThatFit(t *testing.T) {
	release, tag := strings.Repeat("r", 53), strings.Repeat("t", 62)+"-t"
	out, err := helm(t, "template", release, chart, "--namespace", "llm", "--set", "image.tag="+tag)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	decode(t, out)
}

// A chart cannot read what lies beside it, so it carries a copy of the rules and
// the dashboards.
func TestChartCarriesCopies(t *testing.T) {
	checkCopy(t, root+"/deploy/prometheus/rules.yaml", chart+"/files/rules.yaml")
	dashboards, err := filepath.Glob(root + "/deploy/grafana/*.json")
	if err != nil || len(dashboards) == 0 {
		t.Fatalf("no dashboards (%v)", err)
	}
	for _, file := range dashboards {
		checkCopy(t, file, chart+"/files/dashboards/"+filepath.Base(file))
	}
	copies, err := filepath.Glob(chart + "/files/dashboards/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range copies {
		if _, err := os.Stat(root + "/deploy/grafana/" + filepath.Base(file)); err != nil {
			t.Errorf("%s is a copy of nothing: %v", file, err)
		}
	}
}

func checkCopy(t *testing.T, source, target string) {
	t.Helper()
	want, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	write(t, target, string(want))
}

// write checks that a generated file is up to date, or with -update writes it.
func write(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s is not what it is generated from (%v): run make generate-deploy and commit the result", strings.TrimPrefix(name, root+"/"), err)
	}
}

// The three sizes differ in what they ask for, and say so in order.
func TestSizesGrow(t *testing.T) {
	var asked []int64
	for _, v := range variants {
		if !slices.Contains([]string{"small", "medium", "large"}, v.name) {
			continue
		}
		var sum int64
		for _, pod := range decode(t, render(t, "llm", v.values)).Pods() {
			for _, c := range pod.Containers() {
				sum += c.Resources.Requests.Cpu().MilliValue()
			}
		}
		asked = append(asked, sum)
	}
	if !slices.IsSorted(asked) || len(asked) != 3 {
		t.Errorf("the sizes request %v thousandths of a CPU a Pod, want them in order", asked)
	}
}
