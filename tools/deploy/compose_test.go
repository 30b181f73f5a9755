package deploy_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// compose reads deploy/compose.yaml as docker compose does, all profiles of it.
func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{root + "/deploy/compose.yaml"}, cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// Every service of ours runs a command that exists, on a configuration that is
// good, and is asked for its health by one that exists.
func TestComposeRuns(t *testing.T) {
	ours := 0
	for name, s := range compose(t).Services {
		files := map[string]string{}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			info, err := os.Stat(v.Source)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if text, err := os.ReadFile(v.Source); !info.IsDir() && err == nil {
				files[v.Target] = string(text)
			}
		}
		if s.Build == nil {
			if _, tag, ok := strings.Cut(s.Image, ":"); !ok || tag == "latest" {
				t.Errorf("%s: image %s has no version", name, s.Image)
			}
			continue
		}
		ours++
		if len(s.Entrypoint) > 0 {
			t.Errorf("%s: has an entrypoint of its own: the image has but one program", name)
		}
		run(t, s.Command, files)
		if s.HealthCheck != nil && !s.HealthCheck.Disable {
			test := s.HealthCheck.Test
			if len(test) < 2 || test[0] != "CMD" || test[1] != entrypoint {
				t.Errorf("%s: its health is asked by %q, want %s: the image has no shell", name, test, entrypoint)
				continue
			}
			run(t, test[2:], nil)
		}
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" {
			t.Errorf("%s: may write to its image, or keeps capabilities", name)
		}
	}
	if ours != 6 {
		t.Errorf("%d services run Spillway, want router, predictor, trainer, migrate, fleet and load", ours)
	}
}

// What the services are told of each other is there: hosts that are services,
// ports that they listen on or publish.
func TestComposeServicesFindEachOther(t *testing.T) {
	project := compose(t)
	var c config
	readYAML(t, root+"/deploy/compose/spillway.yaml", &c)
	ports := map[string]bool{"9000": true, "9001": true, "9002": true, "9003": true} // of fleet --endpoints 4
	for _, e := range c.Router.Endpoints {
		at, err := url.Parse(e.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := project.Services[at.Hostname()]; !ok || !ports[at.Port()] {
			t.Errorf("endpoint %s: no service has it", e.URL)
		}
		delete(ports, at.Port())
	}
	if len(ports) > 0 {
		t.Errorf("the router does not know the engines at %v", ports)
	}

	admin := map[string]string{"router": c.Router.Admin, "predictor": c.Predictor.Admin, "trainer": c.Trainer.Admin}
	var prometheus struct {
		RuleFiles []string `json:"rule_files"`
		Scrapes   []struct {
			Targets []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	scraped := 0
	readYAML(t, root+"/deploy/compose/prometheus.yaml", &prometheus)
	for _, scrape := range prometheus.Scrapes {
		for _, target := range scrape.Targets {
			for _, address := range target.Targets {
				host, port, err := net.SplitHostPort(address)
				if err != nil {
					t.Fatal(err)
				}
				scraped++
				if host != "fleet" && admin[host] != ":"+port {
					t.Errorf("Prometheus asks %s, and the configuration says %q", address, admin[host])
				}
			}
		}
	}
	if want := len(admin) + len(c.Router.Endpoints); scraped != want {
		t.Errorf("Prometheus asks %d processes, want %d", scraped, want)
	}
	mounted := map[string]bool{}
	for _, v := range project.Services["prometheus"].Volumes {
		mounted[v.Target] = true
	}
	for _, file := range prometheus.RuleFiles {
		if !mounted[filepath.Join("/etc/prometheus", file)] {
			t.Errorf("Prometheus reads %s, which is not mounted", file)
		}
	}

	socket := strings.TrimPrefix(c.Predictor.Listen, "unix://")
	for _, name := range []string{"router", "predictor"} {
		shared := false
		for _, v := range project.Services[name].Volumes {
			shared = shared || v.Source == "run" && v.Target == filepath.Dir(socket)
		}
		if !shared {
			t.Errorf("%s: volume run is not mounted where %s lies", name, socket)
		}
	}
	if c.Router.Forecast.Address != c.Predictor.Listen {
		t.Errorf("the router asks %s and the predictor listens on %s", c.Router.Forecast.Address, c.Predictor.Listen)
	}
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
