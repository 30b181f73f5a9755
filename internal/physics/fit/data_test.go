package fit_test

import (
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// open reads the rows of a public file, or skips the test.
func open[T any](t *testing.T, name string, read func(io.Reader) iter.Seq2[T, error]) []T {
	t.Helper()
	data := os.Getenv("SPILLWAY_DATA")
	if data == "" {
		t.Skip("SPILLWAY_DATA is not set: the public measurements are not here")
	}
	f, err := os.Open(filepath.Join(data, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := measured.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := measured.Collect(read(r))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Qwen3-32B on two H100: what is known of it from elsewhere.
func TestSteadyStatesOfQwenOnH100(t *testing.T) {
	all := open(t, "silicon/silicon_sample.csv.gz", measured.Silicon)
	rows := slices.DeleteFunc(all, func(r measured.SteadyState) bool {
		return r.Deployment.String() != "Qwen/Qwen3-32B/h100_sxm/vllm-0.12.0/tp2"
	})
	s, err := fit.SteadyStates(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what              string
		got, want, within float64
	}{
		{"a, by another fit of these rows", s.Coefficients.A, 0.01397, 0.05},
		{"b, by another fit of these rows", s.Coefficients.B, 48.1e-6, 0.10},
		{"e, by another fit of these rows", s.Coefficients.E, 53e-9, 0.15},
		{"T(8192), published as 0.40 s", s.Coefficients.A + float64(s.Coefficients.Work(8192, 8192)), 0.40, 0.40},
		{"the cache, of 262,144 tokens in the published recipe", s.KVCapacityTokens, 262_144, 0.10},
	} {
		if off := math.Abs(x.got/x.want - 1); off > x.within {
			t.Errorf("%s: fitted %v, want %v within %v", x.what, x.got, x.want, x.within)
		}
	}
	held, err := fit.CrossSteadyStates(rows)
	if q := held.Of(fit.All); err != nil || q.TTFT.Median > 0.12 || q.TPOT.Median > 0.03 {
		t.Errorf("held out: %+v, %v", q, err)
	}
}

func TestDispatchesOfQwenOnH200(t *testing.T) {
	engine := fit.Engine{KVCapacityTokens: 221_000, MaxBatchedTokens: 8192}
	for _, c := range []struct {
		file       string
		ttft, tpot float64
	}{{"sharegpt-h200", 0.12, 0.04}, {"bimodal-h200-first80", 0.05, 0.07}} {
		rows := open(t, "measured-h200/"+c.file+".jsonl", measured.LatencyPredictor)
		d, err := fit.Dispatches(rows, engine)
		if err != nil {
			t.Fatal(err)
		}
		if a := d.Coefficients.A; a < 0.018 || a > 0.025 { // the lowest TPOT seen is 18.5 ms
			t.Errorf("%s: a is %v", c.file, a)
		}
		for _, cross := range []func([]measured.Dispatch, fit.Engine) (fit.Errors, error){fit.CrossDispatches, fit.ForwardDispatches} {
			held, err := cross(rows, engine)
			if q := held.Of(fit.All); err != nil || q.TTFT.Median > c.ttft || q.TPOT.Median > c.tpot {
				t.Errorf("%s held out: %+v, %v", c.file, q, err)
			}
		}
	}
}

// A fit to one run predicts the prefill of the others up to one factor, the
// speed of the accelerator, which the first tenth of their requests tells.
func TestOneRunPredictsTheOthers(t *testing.T) {
	load := func(run string, ranks int) *fit.Timeline {
		tl, err := fit.NewTimeline(open(t, "measured-llmservingsim/"+run+".requests.jsonl", measured.ServingSim), 2048, ranks)
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	first := load("RTX4090_Llama-3.1-8B", 1)
	c, err := first.Fit()
	if err != nil {
		t.Fatal(err)
	}
	if q := first.Judge(c); q.Of(fit.All).TTFT.Median > 0.07 || q.Of(fit.All).TPOT.Median > 0.04 {
		t.Errorf("its own run: %+v", q.Of(fit.All))
	}
	for _, x := range []struct {
		run           string
		ranks         int
		fastest, most float64 // bounds of the factor
		within        float64
	}{
		{"RTXPRO6000_Llama-3.1-8B", 1, 0.4, 0.7, 0.20},
		{"RTXPRO6000_Qwen3-30B-A3B-Instruct-2507", 2, 0.5, 1, 0.25},
	} {
		tl := load(x.run, x.ranks)
		speed, err := tl.Speed(c, 30)
		if err != nil || speed < x.fastest || speed > x.most {
			t.Errorf("%s is %v times as slow, %v", x.run, speed, err)
		}
		q := tl.Judge(c.Scaled(speed))
		if got := q.Of(fit.All).TTFT.Median; got > x.within {
			t.Errorf("%s: prefill is off by %v in the median, want %v", x.run, got, x.within)
		}
	}
}

// Each built-in profile that was fitted here can be fitted again.
func TestBuiltInProfilesAreReproducible(t *testing.T) {
	rows := open(t, "silicon/silicon_sample.csv.gz", measured.Silicon)
	for name, deployment := range map[string]string{
		"qwen3-32b-h100-tp2-vllm":       "Qwen/Qwen3-32B/h100_sxm/vllm-0.12.0/tp2",
		"llama-3.1-70b-h100-tp4-vllm":   "meta-llama/Llama-3.1-70B/h100_sxm/vllm/fp8/tp4",
		"qwen3-235b-a22b-h200-tp4-vllm": "Qwen/Qwen3-235B-A22B-FP8/h200_sxm/vllm-0.12.0/fp8/tp4",
	} {
		p, err := physics.Named(name)
		if err != nil {
			t.Error(err)
			continue
		}
		var own []measured.SteadyState
		for _, r := range rows {
			if r.Deployment.String() == deployment {
				own = append(own, r)
			}
		}
		s, err := fit.SteadyStates(own)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, x := range []struct{ got, want float64 }{
			{p.Coefficients.A, s.Coefficients.A}, {p.Coefficients.B, s.Coefficients.B}, {p.Coefficients.C, s.Coefficients.C},
			{p.Coefficients.D, s.Coefficients.D}, {p.Coefficients.E, s.Coefficients.E},
		} {
			if math.Abs(x.got-x.want) > 0.005*x.want {
				t.Errorf("%s has %+v, its rows give %+v", name, p.Coefficients, s.Coefficients)
				break
			}
		}
	}
}
