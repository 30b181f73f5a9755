package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/physics"
)

// siliconRows are steady states of two deployments that follow a step model:
// A 10 ms, B 50 us, D 0.1 ms; the second is slower.
func siliconRows() string {
	var text strings.Builder
	text.WriteString("silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,batch_size,tp_size,silicon_ttft_ms,silicon_tpot_ms\n")
	for _, d := range []struct {
		tp   int
		slow float64
	}{{2, 1}, {1, 1.9}} {
		for _, prompt := range []float64{1024, 4096} {
			for _, clients := range []float64{4, 8, 16, 32} {
				prefill := 0.05 * prompt // ms
				fmt.Fprintf(&text, "x,vllm,1,org/LLM,gpu,fp8,agg,%g,512,%g,%d,%g,%g\n", prompt, clients, d.tp,
					d.slow*(30+10+prefill+0.05*clients*prefill), d.slow*(10+0.1*clients+(clients-1)/511*prefill))
			}
		}
	}
	return text.String() + "broken,line\n"
}

func TestFitProfile(t *testing.T) {
	t.Parallel()
	rows := write(t, "rows.csv", siliconRows())
	file := filepath.Join(t.TempDir(), "mine.json")
	args := []string{"fit-profile", "--format", "silicon", "--rows", rows, "--select", "model=llm,tp=2", "--kv-capacity-tokens", "100000", "--name", "mine"}
	stdout, stderr, code := run(t, "", append(args, "--out", file)...)
	if code != 0 || !strings.Contains(stdout, "rows not used for the fit") || !strings.Contains(stderr, "skipped 1 broken lines") {
		t.Fatalf("exit code %d, printed %s%s", code, stdout, stderr)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := physics.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	// 2,048 tokens take 102 ms.
	if c := p.Coefficients; p.Name != "mine" || c.A < 0.008 || c.A > 0.012 || c.Work(2048, 2048) < 0.085 || c.Work(2048, 2048) > 0.12 || p.KVCapacityTokens != 100_000 {
		t.Errorf("fitted %+v", p)
	}
	var result struct {
		Profile physics.Profile
		Rows    int
		HeldOut []struct{ Group string } `json:"held_out"`
	}
	if err := json.Unmarshal([]byte(must(t, "", append(args, "--json")...)), &result); err != nil {
		t.Fatal(err)
	}
	if result.Profile != p || result.Rows != 8 || len(result.HeldOut) == 0 || result.HeldOut[0].Group != "all" {
		t.Errorf("--json prints %+v", result)
	}
	// Whoever takes a profile's name takes the file.
	broken := write(t, "broken.json", `{"name":"x"}`)
	mistake{args: []string{"fleet", "--profile", broken}, says: []string{"--profile", "broken.json", "coefficients a and b"}}.check(t)
	mistake{args: []string{"fleet", "--profile", "no/such/file"}, says: []string{"--profile", "no/such/file"}}.check(t)
	if got, err := engineProfile(file); err != nil || got != p {
		t.Errorf("the file gives %+v, %v", got, err)
	}
}

func TestFitProfileMistakes(t *testing.T) {
	t.Parallel()
	rows := write(t, "rows.csv", siliconRows())
	for _, m := range []mistake{
		{name: "no format", args: []string{"--rows", rows}, says: []string{"--format", "silicon, splitwise, h200, llmservingsim or outcomes"}},
		{name: "no rows", args: []string{"--format", "silicon"}, says: []string{"--rows"}},
		{name: "no such file", args: []string{"--format", "silicon", "--rows", rows + "x"}, says: []string{"--rows", "no such file"}},
		{name: "another format", args: []string{"--format", "h200", "--rows", rows, "--kv-capacity-tokens", "1000"}, says: []string{"no usable row: line 1"}},
		{name: "two deployments", args: []string{"--format", "silicon", "--rows", rows}, says: []string{"--select", "org/LLM/gpu/vllm-1/fp8/tp1, org/LLM/gpu/vllm-1/fp8/tp2"}},
		{name: "no deployment", args: []string{"--format", "silicon", "--rows", rows, "--select", "tp=3"}, says: []string{"--select", "no deployment"}},
		{name: "a wrong key", args: []string{"--format", "silicon", "--rows", rows, "--select", "llm=x"}, says: []string{"--select", "llm=x"}},
		{name: "a choice of one engine", args: []string{"--format", "h200", "--rows", rows, "--select", "tp=2"}, says: []string{"--select"}},
		{name: "no cache", args: []string{"--format", "silicon", "--rows", rows, "--select", "tp=2"}, says: []string{"--kv-capacity-tokens"}},
		{name: "a window of files", args: []string{"--format", "silicon", "--rows", rows, "--window", "1h"}, says: []string{"--window", "silicon"}},
		{name: "a class of files", args: []string{"--format", "silicon", "--rows", rows, "--class", "h100"}, says: []string{"--class", "silicon"}},
		{name: "files of outcomes", args: []string{"--format", "outcomes", "--rows", rows, "--window", "1h"}, says: []string{"--rows", "DATABASE_URL"}},
		{name: "outcomes of any time", args: []string{"--format", "outcomes"}, says: []string{"--window", "24h"}},
		{name: "outcomes of the future", args: []string{"--format", "outcomes", "--window", "-1h"}, says: []string{"--window", "-1h"}},
		{name: "a choice of outcomes", args: []string{"--format", "outcomes", "--window", "1h", "--select", "tp=2"}, says: []string{"--select"}},
		{name: "outcomes without a database", args: []string{"--format", "outcomes", "--window", "1h"}, says: []string{"DATABASE_URL is empty"}},
		{name: "a negative limit", args: []string{"--format", "silicon", "--rows", rows, "--max-num-seqs", "-1"}, says: []string{"--max-num-seqs"}},
	} {
		m.args = append([]string{"fit-profile"}, m.args...)
		t.Run(m.name, m.check)
	}
}
