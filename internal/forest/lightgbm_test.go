package forest_test

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/forest"
)

// Forests that LightGBM wrote, and what it predicted with them: the flat
// evaluator gives the same where it can, and leaves gives the same of what is
// unsupported.
func TestWhatLightGBMPredicted(t *testing.T) {
	dir := leavesTestdata(t)
	raw := func(x float64) float64 { return x }
	for _, c := range []struct {
		model, rows, predicted string
		unsupported            bool
		output                 func(float64) float64 // what LightGBM applied to the raw sum
	}{
		{"lg_dart_breast_cancer.model", "breast_cancer_test.tsv", "lg_dart_breast_cancer_true_predictions.txt", false,
			func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
		{"lg_rf_iris.model", "iris_test.libsvm", "lg_rf_iris_true_predictions.txt", true, raw},
		{"genlin_fmtp_gamma_AvgClaimAmount.model", "genlin_fmtp_gamma_AvgClaimAmount_features.tsv", "genlin_fmtp_gamma_AvgClaimAmount_true_predictions.txt", true, math.Exp},
		{"genlin_fmtp_poisson_Frequency.model", "genlin_fmtp_poisson_Frequency_features.tsv", "genlin_fmtp_poisson_Frequency_true_predictions.txt", true, math.Exp},
		{"genlin_fmtp_tweedie_PurePremium.model", "genlin_fmtp_tweedie_PurePremium_features.tsv", "genlin_fmtp_tweedie_PurePremium_true_predictions.txt", true, math.Exp},
	} {
		text := readFile(t, filepath.Join(dir, c.model))
		if bytes.HasPrefix(text, []byte("tree\nversion=v2\n")) { // v3 but for its name and last line
			text = append(bytes.Replace(text, []byte("version=v2"), []byte("version=v3"), 1), "\nend of trees\n"...)
		}
		rows, predicted := readTable(t, filepath.Join(dir, c.rows)), readTable(t, filepath.Join(dir, c.predicted))
		if len(rows) < 30 || len(rows) != len(predicted) {
			t.Fatalf("%s: %d rows and %d predictions", c.model, len(rows), len(predicted))
		}
		e := reference(t, text)
		predict := func(row []float64) float64 { return e.PredictSingle(row, 0) }
		f, err := forest.Parse(text)
		switch {
		case c.unsupported && !errors.Is(err, forest.ErrUnsupported), !c.unsupported && err != nil:
			t.Fatalf("%s: %v, want ErrUnsupported %v", c.model, err, c.unsupported)
		case !c.unsupported:
			predict = f.Predict
		}
		for i, row := range rows {
			got, want := c.output(predict(row)), predicted[i][0]
			if math.Abs(got-want) > 1e-12*math.Abs(want) {
				t.Fatalf("%s: row %d: %v, LightGBM says %v", c.model, i, got, want)
			}
		}
	}
}

// readTable reads lines of numbers, or of a label and numbers that follow
// their column and a colon.
func readTable(t *testing.T, path string) [][]float64 {
	t.Helper()
	var table [][]float64
	for line := range strings.Lines(string(readFile(t, path))) {
		fields := strings.Fields(line)
		if strings.Contains(line, ":") {
			fields = fields[1:]
		}
		var row []float64
		for _, field := range fields {
			_, number, found := strings.Cut(field, ":")
			if !found {
				number = field
			}
			x, err := strconv.ParseFloat(number, 64)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			row = append(row, x)
		}
		table = append(table, row)
	}
	return table
}
