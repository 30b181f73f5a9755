package deploy_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A process is what a container runs, started here.
type process struct {
	name  string
	cmd   *exec.Cmd
	out   io.Reader   // standard output
	lines chan string // of standard error, until it ends
}

// here is a container's world moved to this machine: its paths below a folder of
// the test, its addresses on free ports of loopback, its engines at these URLs.
type here struct {
	dir     string
	engines []string
}

var (
	listens = regexp.MustCompile(`(listen|admin): ['"]?:[0-9]+['"]?`)
	engine  = regexp.MustCompile(`http://fleet:900[0-9]`)
)

func (h here) move(text string) string {
	for _, path := range []string{"/etc/spillway", "/run/spillway", "/var/lib/spillway"} {
		text = strings.ReplaceAll(text, path, h.dir+path)
	}
	text = listens.ReplaceAllString(text, `$1: "127.0.0.1:0"`)
	text = strings.ReplaceAll(text, "0.0.0.0", "127.0.0.1")
	return engine.ReplaceAllStringFunc(text, func(url string) string { return h.engines[url[len(url)-1]-'0'] })
}

// start starts what a container runs, with the files that it finds. No database
// answers.
func (h here) start(t *testing.T, name string, args []string, files map[string]string) *process {
	t.Helper()
	for path, text := range files {
		if text == "" {
			text = "a secret of this test alone"
		}
		at := h.move(path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(h.move(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var moved []string
	for _, arg := range args {
		moved = append(moved, h.move(arg))
	}
	p := &process{name: name, cmd: exec.Command(os.Getenv("SPILLWAY_BINARY"), moved...), lines: make(chan string, 1000)}
	p.cmd.Env = []string{"DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}
	var err error
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	logged, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(logged); scan.Scan(); {
			select {
			case p.lines <- scan.Text():
			default: // nobody reads any more
			}
		}
	}()
	t.Cleanup(func() { p.cmd.Process.Kill() }) // one that ended already is none
	return p
}

// says waits until the process logs this, and returns what its group matched.
func (p *process) says(t *testing.T, what string) string {
	t.Helper()
	want := regexp.MustCompile(what)
	late := time.After(time.Minute)
	var heard []string
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("%s ended and never said %s:\n%s", p.name, what, strings.Join(heard, "\n"))
			}
			if found := want.FindStringSubmatch(line); found != nil {
				return found[len(found)-1]
			}
			heard = append(heard, line)
		case <-late:
			t.Fatalf("%s never said %s:\n%s", p.name, what, strings.Join(heard, "\n"))
		}
	}
}

// ends asks the process to end, as a cluster does, which it does well.
func (p *process) ends(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s ends with %v", p.name, err)
	}
}

// fleet starts the simulated engines of the Compose file.
func fleet(t *testing.T) (engines []string) {
	t.Helper()
	p := here{dir: t.TempDir()}.start(t, "fleet", append(compose(t).Services["fleet"].Command, "--port", "0", "--json"), nil)
	if err := json.NewDecoder(p.out).Decode(&engines); err != nil {
		t.Fatal(err)
	}
	if len(engines) != 4 {
		t.Fatalf("engines at %q, want 4", engines)
	}
	t.Cleanup(func() { p.ends(t) })
	return engines
}

// asks sends a chat completion to a router.
func asks(t *testing.T, address string) {
	t.Helper()
	answer, err := http.Post("http://"+address+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"qwen3-32b","messages":[{"role":"user","content":"hi"}],"max_tokens":3}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || answer.Header.Get("x-spillway-endpoint") == "" {
		t.Errorf("a request is answered %s: %s", answer.Status, text)
	}
}

// world is a new one, with the folders that volumes would be.
func world(t *testing.T, engines []string) here {
	t.Helper()
	h := here{dir: t.TempDir(), engines: engines}
	for _, dir := range []string{"/run/spillway", "/var/lib/spillway"} {
		if err := os.MkdirAll(h.dir+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// served waits until a process serves, a router with an engine, and returns where
// its admin listener and its front door are.
func (p *process) served(t *testing.T) (admin, door string) {
	t.Helper()
	said := p.says(t, "(?:metrics and health are served|router serves).*")
	at := func(key string) string {
		found := regexp.MustCompile(`\b` + key + `"?[=:]"?([0-9.]+:[0-9]+)`).FindStringSubmatch(said)
		if found == nil {
			return ""
		}
		return found[1]
	}
	if p.name == "router" {
		p.says(t, "endpoint serves")
	}
	return at("admin"), at("listen")
}

// The services of the Compose file serve together, are healthy by their own
// checks, and end when told to; but for Postgres, which they can do without, and
// Prometheus and Grafana.
func TestComposeServes(t *testing.T) {
	h := world(t, fleet(t))
	config, err := os.ReadFile(root + "/deploy/compose/spillway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	services := compose(t).Services
	var all []*process
	for _, name := range []string{"predictor", "router", "trainer"} {
		p := h.start(t, name, services[name].Command, map[string]string{"/etc/spillway/spillway.yaml": string(config)})
		all = append(all, p)
		admin, door := p.served(t)
		check := []string{"health", "http://127.0.0.1:8081/healthz"} // the image's
		if own := services[name].HealthCheck; own != nil {
			check = own.Test[2:]
		}
		asked := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(check[1], admin)
		if out, err := exec.Command(os.Getenv("SPILLWAY_BINARY"), check[0], asked).CombinedOutput(); err != nil {
			t.Errorf("%s is not healthy: %v\n%s", name, err, out)
		}
		if name == "router" {
			asks(t, door)
		}
	}
	for _, p := range all {
		p.ends(t)
	}
}

// The containers of the chart's Pods serve together, answer their probes, and end
// when told to, those that began first last.
func TestPodsServe(t *testing.T) {
	engines := fleet(t)
	set := decode(t, render(t, "llm", []string{"testdata/serve.yaml"}))
	var served []string
	for _, pod := range set.Pods() {
		if strings.HasSuffix(pod.Owner.GetName(), "-migrate") {
			continue // wants a database
		}
		h := world(t, engines)
		var all []*process
		for _, c := range pod.Containers() {
			p := h.start(t, c.Name, c.Args, set.Files(pod, c))
			all = append(all, p)
			served = append(served, c.Name)
			admin, door := p.served(t)
			for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
				if probe == nil {
					continue
				}
				answer, err := http.Get("http://" + admin + probe.HTTPGet.Path)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					t.Errorf("%s answers a probe of %s with %s", c.Name, probe.HTTPGet.Path, answer.Status)
				}
			}
			if c.Name == "router" {
				asks(t, door)
			}
		}
		for _, p := range slices.Backward(all) {
			p.ends(t)
		}
	}
	if want := []string{"predictor", "router", "trainer"}; !slices.Equal(served, want) {
		t.Errorf("%v serve, want %v", served, want)
	}
}
