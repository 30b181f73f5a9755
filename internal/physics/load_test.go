package physics_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/physics"
)

func TestLoadReadsWhatWasWritten(t *testing.T) {
	for _, p := range physics.Profiles() {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := physics.Load(strings.NewReader(string(text)))
		if diff := cmp.Diff(p, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", p.Name, err, diff)
		}
	}
}

func TestLoadNamesWhatIsWrong(t *testing.T) {
	const good = `{"name":"x","source":"s","coefficients":{"a":0.01,"b":1e-5,"c":0,"d":0,"e":0},"max_batched_tokens":1,"max_num_seqs":1,"kv_capacity_tokens":1,"block_tokens":1,"peak_prefill_throughput":1,"noise_std_dev":0}`
	if _, err := physics.Load(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "EOF"},
		{"a list", "[]", "cannot unmarshal array"},
		{"an unknown key", strings.Replace(good, `"source"`, `"sauce"`, 1), `unknown field "sauce"`},
		{"no name", strings.Replace(good, `"name":"x",`, "", 1), "name is missing"},
		{"a negative coefficient", strings.Replace(good, `"a":0.01`, `"a":-1`, 1), "coefficient a is -1"},
		{"no budget", strings.Replace(good, `"max_batched_tokens":1`, `"max_batched_tokens":0`, 1), "max_batched_tokens is 0"},
		{"noise of 1", strings.Replace(good, `"noise_std_dev":0`, `"noise_std_dev":1`, 1), "noise_std_dev is 1"},
		{"an overhead of an hour", strings.Replace(good, `"name":"x"`, `"name":"x","overhead":3600`, 1), "overhead is 3600"},
		{"two profiles", good + good, "something follows"},
		{"a file without end", strings.Repeat(" ", 2<<20), "longer than"},
	} {
		if _, err := physics.Load(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(`{"name":"x","coefficients":{"a":0.01,"b":1e-5},"max_batched_tokens":1,"max_num_seqs":1,"kv_capacity_tokens":1,"block_tokens":1,"peak_prefill_throughput":1}`)
	f.Add(`{"name":"x"} {}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := physics.Load(strings.NewReader(text))
		if err != nil {
			return
		}
		if err := p.Check(); err != nil {
			t.Errorf("Load passes what Check refuses: %v", err)
		}
	})
}
