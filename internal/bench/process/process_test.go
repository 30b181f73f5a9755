package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/bench/process"
)

func TestPlay(t *testing.T) {
	var role context.Context
	roles := map[string]process.Role{"echo": func(ctx context.Context, setting []byte) (any, func(string) any, error) {
		role = ctx
		var n int
		err := json.Unmarshal(setting, &n)
		return n + 1, func(line string) any { return line + "!" }, err
	}}
	for _, c := range []struct{ role, in, out, fault string }{
		{"echo", "4\na\nb\n", "5\n\"a!\"\n\"b!\"\n", ""},
		{"echo", "", "", "echo: there is no setting"},
		{"echo", "no number\n", "", "echo: invalid character"},
		{"other", "4\n", "", `--role: there is no "other"`},
	} {
		var out bytes.Buffer
		err := process.Play(t.Context(), c.role, roles, strings.NewReader(c.in), &out)
		if out.String() != c.out || (err == nil) != (c.fault == "") || err != nil && !strings.HasPrefix(err.Error(), c.fault) {
			t.Errorf("%s of %q said %q, %v; want %q, %q", c.role, c.in, out.String(), err, c.out, c.fault)
		}
	}
	if role.Err() == nil {
		t.Error("a role's context outlives it")
	}
}
