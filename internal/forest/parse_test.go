package forest_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dmitryikh/leaves"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-llm/spillway/internal/forest"
)

// small is a hand-written text with one line of metadata, a trailer, and
// everything optional left out.
const small = `tree
version=v3
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=quantile
feature_names=a b
monotone_constraints=1 0
feature_infos=[0:9.5] none
alpha=0.9
tree_sizes=10 20

Tree=0
num_leaves=3
num_cat=0
split_feature=1 0
threshold=0.5 1.25
decision_type=10 8
left_child=1 -2
right_child=-1 -3
leaf_value=1 2 3
shrinkage=0.1


Tree=1
num_leaves=1
num_cat=0
leaf_value=0.125


end of trees

feature_importances:
a=1

parameters:
[linear_tree: 0]
[reg_sqrt: 0]
end of parameters
`

// leavesTestdata is the folder of files that LightGBM wrote for the tests of
// leaves.
func leavesTestdata(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dmitryikh/leaves").Output()
	if err != nil {
		t.Fatalf("find the module leaves: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "testdata")
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFilesOfLightGBMPredictAsLeavesDoes(t *testing.T) {
	dir := leavesTestdata(t)
	var rows []float64
	for _, field := range strings.Fields(string(readFile(t, filepath.Join(dir, "lg_breast_cancer_data.txt")))) {
		x, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, x)
	}
	n := len(rows) / 30
	if n < 50 || len(rows) != n*30 {
		t.Fatalf("%d numbers in the rows of leaves, want some fifty rows of 30", len(rows))
	}
	for _, name := range []string{"lg_breast_cancer.txt", "lg_dart_breast_cancer.model"} {
		text := bytes.Replace(readFile(t, filepath.Join(dir, name)), []byte("version=v2"), []byte("version=v3"), 1)
		e := reference(t, text)
		for _, version := range []string{"v3", "v4"} {
			f, err := forest.Parse(bytes.Replace(text, []byte("version=v3"), []byte("version="+version), 1))
			if err != nil {
				t.Errorf("%s as %s: %v", name, version, err)
				continue
			}
			rewritten := reference(t, f.Text())
			out := make([]float64, n)
			f.PredictBatch(rows, n, out)
			for i := range out {
				row := rows[i*30 : (i+1)*30]
				want := e.PredictSingle(row, 0)
				if !sameBits(out[i], want) || !sameBits(f.Predict(row), want) || !sameBits(rewritten.PredictSingle(row, 0), want) {
					t.Fatalf("%s as %s: row %d: %v alone, %v in a batch, leaves says %v", name, version, i, f.Predict(row), out[i], want)
				}
			}
		}
	}
}

func TestWhatOnlyLeavesServesIsUnsupported(t *testing.T) {
	dir := leavesTestdata(t)
	for _, name := range []string{
		"genlin_fmtp_gamma_AvgClaimAmount.model", "genlin_fmtp_poisson_Frequency.model",
		"genlin_fmtp_tweedie_PurePremium.model", "model_simple.txt", "lg_rf_iris.model",
	} {
		text := bytes.Replace(readFile(t, filepath.Join(dir, name)), []byte("version=v2"), []byte("version=v3"), 1)
		text = append(text, "\nend of trees\n"...) // version=v2 has no such line
		if _, err := forest.Parse(text); !errors.Is(err, forest.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
		reference(t, text)
		// What leaves would silently get wrong must not look servable.
		for _, bad := range []string{"[linear_tree: 1]", "[reg_sqrt: 1]"} {
			worse := append(bytes.Clone(text), "\n"+bad+"\n"...)
			if _, err := forest.Parse(worse); err == nil || errors.Is(err, forest.ErrUnsupported) {
				t.Errorf("%s with %s: %v, want a plain refusal", name, bad, err)
			}
		}
	}
}

func TestOtherFormatsOfLeavesAreRefused(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(leavesTestdata(t), "*.model"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models found: %v", err)
	}
	for _, file := range files {
		text := readFile(t, file)
		if bytes.HasPrefix(text, []byte("tree\nversion=v3\n")) {
			continue
		}
		if _, err := forest.Parse(text); err == nil || errors.Is(err, forest.ErrUnsupported) {
			t.Errorf("%s: %v, want a plain refusal", filepath.Base(file), err)
		}
	}
}

func TestSmallTextIsReadWhole(t *testing.T) {
	for _, text := range []string{small, strings.ReplaceAll(small, "\n", "\r\n")} {
		f, err := forest.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		h := f.Header()
		if first, err := forest.ParseHeader([]byte(text)); err != nil || !cmp.Equal(h, first, cmpopts.EquateNaNs()) {
			t.Errorf("ParseHeader gives %+v, %v", first, err)
		}
		if h.Objective != "quantile" || h.Metadata["alpha"] != "0.9" || len(h.Metadata) != 1 ||
			fmt.Sprint(h.FeatureNames, h.MonotoneConstraints, h.Ranges) != "[a b] [1 0] [{0 9.5} {NaN NaN}]" {
			t.Errorf("header %+v", h)
		}
		for _, c := range []struct{ a, b, want float64 }{{1, 0, 2.125}, {2, 0, 3.125}, {1, 1, 1.125}} {
			if got := f.Predict([]float64{c.a, c.b}); got != c.want {
				t.Errorf("Predict(%v, %v) = %v, want %v", c.a, c.b, got, c.want)
			}
		}
	}
}

func TestParseRefusesAndSaysWhere(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"tree\n", "forest\n", `first line is "forest"`},
		{"version=v3", "version=v2", `want version=v3 or version=v4`},
		{"num_class=1", "num_class=3", `num_class is "3", want 1`},
		{"max_feature_idx=1", "max_feature_idx=5000", `max_feature_idx is "5000", want 0 to 1023`},
		{"max_feature_idx=1\n", "", `no max_feature_idx`},
		{"feature_names=a b", "feature_names=a", `feature_names has 1 entries, want 2`},
		{"monotone_constraints=1 0", "monotone_constraints=1 7", `want -1, 0 or 1`},
		{"feature_infos=[0:9.5] none", "feature_infos=[9:1] none", `not an interval`},
		{"feature_infos=[0:9.5] none", "feature_infos=[0:x] none", `feature_infos: entry 0`},
		{"objective=quantile", "objective=regression sqrt", `reg_sqrt`},
		{"tree_sizes=10 20", "tree_sizes=", `names no trees`},
		{"tree_sizes=10 20", "tree_sizes=10", `more trees than tree_sizes`},
		{"tree_sizes=10 20", "tree_sizes=10 20 30", `tree 2: line 32 is "end of trees"`},
		{"alpha=0.9", "alpha=0.9=1", `line 11: more than one '='`},
		{"alpha=0.9", "num_class=1", `line 11: second "num_class"`},
		{"num_leaves=3", "num_leaves=999999999", `num_leaves is "999999999", want 0 to 4096`},
		{"num_leaves=3", "num_leaves=0", `num_leaves is 0`},
		{"num_leaves=3", "num_leaves=2", `tree 0: leaf_value has more than 2 entries`},
		{"split_feature=1 0", "split_feature=1 2", `split 1: feature 2, want 0 to 1`},
		{"left_child=1 -2", "left_child=0 -2", `own ancestor`},
		{"left_child=1 -2", "left_child=1 -9", `child -9 does not exist`},
		{"leaf_value=1 2 3", "leaf_value=1 2 1e999", `leaf_value: entry 2 is "1e999"`},
		{"leaf_value=1 2 3", "leaf_value=1 2 inf", `leaf 2: a number is not finite`},
		{"threshold=0.5 1.25", "threshold=nan 1.25", `split 0: a number is not finite`},
		{"decision_type=10 8", "decision_type=12 8", `unknown missing type 3`},
		{"decision_type=10 8", "decision_type=16 8", `decision_type 16, want 0 to 15`},
		{"decision_type=10 8", "decision_type=11 8", `category set 0.5`},
		{"end of trees", "", `cut short`},
		{"shrinkage=0.1", "is_linear=1", `linear trees`},
		{"[linear_tree: 0]", "[linear_tree: 1]", `linear_tree is "1"`},
		{"[reg_sqrt: 0]", "[reg_sqrt: true]", `reg_sqrt is "true"`},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Fatalf("%q is not in the text", c.old)
		}
		if _, err := forest.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: error %v, want one with %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := forest.Parse(make([]byte, forest.MaxBytes+1)); err == nil {
		t.Error("text beyond MaxBytes accepted")
	}
	if _, err := forest.Parse(nil); err == nil {
		t.Error("empty text accepted")
	}
}

func TestMangledCategoriesNeverLookServable(t *testing.T) {
	text := string(readFile(t, filepath.Join(leavesTestdata(t), "model_simple.txt")))
	text = strings.Replace(text, "version=v2", "version=v3", 1) + "\nend of trees\n"
	if _, err := forest.Parse([]byte(text)); !errors.Is(err, forest.ErrUnsupported) {
		t.Fatalf("whole file: %v, want ErrUnsupported", err)
	}
	for _, c := range []struct{ old, new string }{
		{"cat_boundaries=0 4", "cat_boundaries=0 5"},
		{"cat_boundaries=0 4", "cat_boundaries=4 4"},
		{"cat_boundaries=0 4", "cat_boundaries=-1 4"},
		{"cat_boundaries=0 4\n", ""},
		{"cat_threshold=0 0 0 16", "cat_threshold=0 0 0"},
		{"cat_threshold=0 0 0 16", "cat_threshold=0 0 0 -16"},
		{"threshold=0 340", "threshold=1 340"},
		{"num_cat=1", "num_cat=0"},
	} {
		mangled := strings.Replace(text, c.old, c.new, 1)
		if _, err := forest.Parse([]byte(mangled)); err == nil || errors.Is(err, forest.ErrUnsupported) {
			t.Errorf("%q for %q: %v, want a plain refusal", c.new, c.old, err)
		}
	}
}

// An error is for a person to read, whatever the file holds.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ old, new string }{
		{"tree\n", long + "\n"}, {"version=v3", "version=" + long}, {"feature_names=a b", "feature_names=" + long + "= b"},
		{"feature_names=a b", "feature_names= " + strings.Repeat("x ", 1<<19)}, {"objective=quantile", "objective=sqrt " + long},
		{"alpha=0.9", "[" + long + "=1"}, {"alpha=0.9", long + "=1\n" + long + "=1"}, {"num_leaves=3", "num_leaves=" + long},
		{"threshold=0.5", "threshold=" + long}, {"Tree=1", long}, {"shrinkage=0.1", "shrinkage=" + long}, {"[reg_sqrt: 0]", "[reg_sqrt: " + long},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if _, err := forest.Parse([]byte(text)); err == nil || len(err.Error()) > 300 {
			t.Errorf("%q for %q: error %.300v", c.new[:min(len(c.new), 20)], c.old, err)
		}
	}
}

func TestTextCutShortIsRefused(t *testing.T) {
	end := strings.Index(small, "end of trees") + len("end of trees")
	for i := range end {
		if _, err := forest.Parse([]byte(small[:i])); err == nil {
			t.Fatalf("accepted the first %d bytes:\n%s", i, small[:i])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add(big(f, 3, 6, 4).Text())
	f.Add([]byte(strings.Replace(small, "decision_type=10 8", "decision_type=6 4", 1)))
	categorical := []byte(strings.NewReplacer(
		"num_cat=0\nsplit", "num_cat=1\ncat_boundaries=0 1\ncat_threshold=5\nsplit",
		"decision_type=10", "decision_type=9", "threshold=0.5", "threshold=0").Replace(small))
	if _, err := forest.Parse(categorical); !errors.Is(err, forest.ErrUnsupported) {
		f.Fatalf("seed with categories: %v, want ErrUnsupported", err)
	}
	f.Add(categorical)
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed, err := forest.Parse(text)
		if errors.Is(err, forest.ErrUnsupported) {
			// Whoever follows the advice to let leaves serve it must be safe.
			if e, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text)), false); err == nil {
				e.PredictSingle(make([]float64, forest.MaxFeatures), 0)
			}
		}
		if err != nil {
			if len(err.Error()) > 500 {
				t.Fatalf("error of %d bytes: %v", len(err.Error()), err)
			}
			return
		}
		if h, err := forest.ParseHeader(text); err != nil || len(h.FeatureNames) != parsed.NumFeatures() {
			t.Fatalf("header %+v, %v of a forest of %d features", h, err, parsed.NumFeatures())
		}
		e := reference(t, parsed.Text())
		width := parsed.NumFeatures()
		rows := make([]float64, 9*width)
		for i := range rows {
			rows[i] = corners[i%len(corners)]
		}
		out := make([]float64, 9)
		parsed.PredictBatch(rows, 9, out)
		for i := range out {
			row := rows[i*width : (i+1)*width]
			got, want := parsed.Predict(row), e.PredictSingle(row, 0)
			if !sameBits(got, out[i]) || !sameBits(got, want) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("row %d: %v alone, %v in a batch, leaves says %v", i, got, out[i], want)
			}
		}
		again, err := forest.Parse(parsed.Text())
		if err != nil {
			t.Fatalf("does not read its own text: %v\n%s", err, parsed.Text())
		}
		if !bytes.Equal(again.Text(), parsed.Text()) {
			t.Fatal("text does not settle")
		}
	})
}
