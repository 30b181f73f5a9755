package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/spillway-llm/spillway/tools/deploy/manifest"
)

// placeholder is a namespace that generated files do not keep: the
// kustomization names one.
const placeholder = "namespace-of-the-kustomization"

// bases are what is rendered from the chart for those who do not use Helm, in
// deploy/kustomize/NAME, each from its file of values.
var bases = []string{"base", "gateway"}

func TestKustomizeIsGenerated(t *testing.T) {
	foreign := regexp.MustCompile(`(?m)^ +(namespace: ` + placeholder + `|app\.kubernetes\.io/managed-by: Helm)\n`)
	for _, base := range bases {
		dir := root + "/deploy/kustomize/" + base
		values := []string{root + "/deploy/kustomize/values.yaml"}
		if base == "gateway" {
			values = append(values, root+"/deploy/kustomize/values-gateway.yaml")
		}
		// The configuration is a file beside the manifests, so that it can be
		// edited, and the kustomization makes a ConfigMap of it.
		own := "# Made from the chart by make generate-deploy: change it there, or lay an overlay over it.\n"
		write(t, dir+"/manifests.yaml", own+foreign.ReplaceAllString(render(t, placeholder, values), ""))
		text := ""
		for _, c := range manifest.Of[*corev1.ConfigMap](decode(t, render(t, placeholder, values, "--set", "configMap.create=true"))) {
			text = c.Data["spillway.yaml"]
		}
		write(t, dir+"/spillway.yaml", "# Made from the chart by make generate-deploy. deploy/config/spillway.yaml has every key.\n"+text)
	}
}

func TestKustomizeIsDeployable(t *testing.T) {
	for _, base := range bases {
		t.Run(base, func(t *testing.T) {
			checkParts(t, decode(t, build(t, root+"/deploy/kustomize/"+base)))
		})
		// As one uses it: with another namespace, image and configuration.
		t.Run(base+" overlaid", func(t *testing.T) {
			overlay := t.TempDir()
			path, err := filepath.Abs(root + "/deploy/kustomize/" + base)
			if err != nil {
				t.Fatal(err)
			}
			if path, err = filepath.Rel(overlay, path); err != nil {
				t.Fatal(err)
			}
			config, err := os.ReadFile(root + "/deploy/kustomize/" + base + "/spillway.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"spillway.yaml": string(config) + "profile: qwen3-32b-h100-tp4-routing\n",
				"kustomization.yaml": `namespace: team
resources: [` + path + `]
images: [{name: registry.example.org/spillway, newName: registry.example.org/team/spillway, newTag: "9"}]
configMapGenerator:
  - {name: spillway, behavior: replace, files: [spillway.yaml]}
`,
			} {
				if err := os.WriteFile(filepath.Join(overlay, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			set := decode(t, build(t, overlay))
			checkParts(t, set)
			for _, o := range set {
				if o.GetNamespace() != "team" {
					t.Errorf("%s: want namespace team", manifest.Name(o))
				}
			}
			for _, pod := range set.Pods() {
				for _, c := range pod.Containers() {
					if c.Image != "registry.example.org/team/spillway:9" {
						t.Errorf("%s: image %s", manifest.Name(pod.Owner), c.Image)
					}
					if !strings.Contains(set.Files(pod, c)["/etc/spillway/spillway.yaml"], "tp4-routing") {
						t.Errorf("%s: container %s reads another configuration than the overlay's", manifest.Name(pod.Owner), c.Name)
					}
				}
			}
		})
	}
}

// build is what kustomize makes of a folder.
func build(t *testing.T, dir string) string {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
