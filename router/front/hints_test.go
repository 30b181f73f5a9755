package front_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// asked is what of a query these tests are about; NaN is unset.
type asked struct {
	TTFT, TPOT float64
	Priority   int
}

// read reads a chat request with such hints in its body ("" for none) and such
// headers.
func read(hints string, headers ...string) (asked, error) {
	body := `{"model":"qwen","messages":[{"role":"user","content":"hi"}]}`
	if hints != "" {
		body = `{"model":"qwen","spillway":` + hints + `,"messages":[{"role":"user","content":"hi"}]}`
	}
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	r := front.Request{Method: http.MethodPost, Path: "/v1/chat/completions", Header: h, Body: []byte(body)}
	var q route.Query
	var scanned openai.Request
	err := r.Read(&q, &scanned)
	return asked{float64(q.SLOTTFT), float64(q.SLOTPOT), q.Priority}, err
}

var nan = cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })

func TestHints(t *testing.T) {
	unset := feature.Unknown
	for _, c := range []struct {
		name, hints string
		headers     []string
		want        asked
	}{
		{"none", "", nil, asked{unset, unset, 0}},
		{"null", "null", nil, asked{unset, unset, 0}},
		{"empty", "{}", nil, asked{unset, unset, 0}},
		{"one unset is not 0", `{"slo_ttft_ms":500}`, nil, asked{0.5, unset, 0}},
		{"all in the body", `{"slo_ttft_ms":500,"slo_tpot_ms":12.5,"priority":-1}`, nil, asked{0.5, 0.0125, -1}},
		{"whole, however it is written", `{"priority":-1.0}`, nil, asked{unset, unset, -1}},
		{"the last of two", `{"priority":-1,"priority":2}`, nil, asked{unset, unset, 2}},
		{"nulls", `{"slo_ttft_ms":null,"slo_tpot_ms":40,"priority":null}`, nil, asked{unset, 0.04, 0}},
		{"all in headers", "", []string{"x-slo-ttft-ms", "500", "x-slo-tpot-ms", " 12.5 ", "x-spillway-priority", "-3"}, asked{0.5, 0.0125, -3}},
		{"llm-d's names", "", []string{"x-llm-d-slo-ttft-ms", "500", "x-llm-d-slo-tpot-ms", "20"}, asked{0.5, 0.02, 0}},
		{"llm-d's names after ours", "", []string{"x-llm-d-slo-ttft-ms", "500", "x-slo-ttft-ms", "250", "x-slo-tpot-ms", "10", "x-llm-d-slo-tpot-ms", "20"}, asked{0.25, 0.01, 0}},
		{"headers first, one by one", `{"slo_ttft_ms":500,"slo_tpot_ms":20,"priority":-1}`, []string{"x-slo-ttft-ms", "250", "x-spillway-priority", "0"}, asked{0.25, 0.02, 0}},
	} {
		got, err := read(c.hints, c.headers...)
		if diff := cmp.Diff(c.want, got, nan); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
	}
}

func TestHintsThatAreWrong(t *testing.T) {
	for hints, says := range map[string]string{
		`{"slo_ttft_ms":0}`:            "`slo_ttft_ms` must be a positive number of milliseconds",
		`{"slo_ttft_ms":1e-320}`:       "`slo_ttft_ms` must be a positive",
		`{"slo_ttft_ms":-1}`:           "`slo_ttft_ms` must be a positive",
		`{"slo_tpot_ms":"40"}`:         "`slo_tpot_ms` must be a positive number",
		`{"slo_tpot_ms":1e999}`:        "`slo_tpot_ms` must be a positive number",
		`{"priority":1.5}`:             "`priority` must be a whole number",
		`{"priority":1e12}`:            "`priority` must be a whole number",
		`{"slo_tfft_ms":40}`:           "slo_tfft_ms",
		`{"SLO_TTFT_MS":40}`:           "SLO_TTFT_MS",
		`{"priority":0,"Priority":-1}`: "Priority",
		`{"priority":2147483648}`:      "`priority` must be a whole number",
		`{"":1}`:                       "known are slo_ttft_ms",
		`{"slo_ttft_ms":{}}`:           "`slo_ttft_ms` must be a positive",
		`"low"`:                        "must be an object",
		`{"priority":-1,"slo_ttft_ms":` + strings.Repeat(" ", 1024) + `1}`: "want at most 1024",
	} {
		_, err := read(hints)
		var fault front.Fault
		if !errors.As(err, &fault) || fault.Status != http.StatusBadRequest || !strings.Contains(fault.Message, says) || !strings.Contains(fault.Message, "spillway") {
			t.Errorf("%.40s: %v, want a refusal that says %q", hints, err, says)
		}
	}
}

// The engine's own priority is not ours: lower means sooner there.
func TestEnginePriorityIsLeftToTheEngine(t *testing.T) {
	r := front.Request{Method: http.MethodPost, Path: "/v1/completions", Body: []byte(`{"model":"qwen","prompt":"hi","priority":-5}`)}
	var q route.Query
	var scanned openai.Request
	if err := r.Read(&q, &scanned); err != nil || q.Priority != 0 {
		t.Errorf("priority %d, %v", q.Priority, err)
	}
}

// Whatever the hints are, they are a Fault, or objectives that are none or
// positive.
func FuzzHints(f *testing.F) {
	f.Add(`{"slo_ttft_ms":500,"priority":-1}`, "250")
	f.Add(`{"slo_tpot_ms":1e-300}`, "")
	f.Fuzz(func(t *testing.T, hints, header string) {
		got, err := read(hints, "x-slo-tpot-ms", header)
		var fault front.Fault
		if err != nil {
			if !errors.As(err, &fault) || fault.Status != http.StatusBadRequest || len(fault.Message) > 300 {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, slo := range []float64{got.TTFT, got.TPOT} {
			if !(slo > 0 || math.IsNaN(slo)) || math.IsInf(slo, 0) {
				t.Fatalf("objectives are %+v", got)
			}
		}
	})
}
