package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// unknownText stands where a number is not known.
const unknownText = "-"

// percent writes a share.
func percent(n feature.Number) string {
	if n != n {
		return unknownText
	}
	return digits(100*float64(n)) + " %"
}

// signed writes a ratio as what it is above or below 1.
func signed(n feature.Number) string {
	if n != n {
		return unknownText
	}
	return fmt.Sprintf("%+.1f %%", 100*(float64(n)-1))
}

// ratio writes a factor.
func ratio(n feature.Number) string {
	if n != n {
		return unknownText
	}
	return digits(float64(n)) + "x"
}

func number(n feature.Number) string {
	if n != n {
		return unknownText
	}
	return digits(float64(n))
}

// digits writes three significant digits and never an exponent.
func digits(v float64) string {
	if v == 0 || math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	places := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', min(5, places), 64)
}

// within writes a proportion with its interval.
func within(p evaluate.Proportion) string {
	if p.Of == 0 {
		return unknownText
	}
	return fmt.Sprintf("%.1f (%.1f to %.1f) %%", 100*p.Share, 100*p.Low, 100*p.High)
}

// interval writes a share with its interval.
func interval(i evaluate.Interval) string {
	if i.Mean != i.Mean {
		return unknownText
	}
	return fmt.Sprintf("%.1f (%.1f to %.1f) %%", 100*i.Mean, 100*i.Low, 100*i.High)
}

func spread(s evaluate.BiasSpread) string {
	if s.Endpoints < 2 {
		return unknownText
	}
	return fmt.Sprintf("%.1f %% (range %.1f %%)", 100*s.Typical, 100*s.Range)
}

// says is a report in a line.
func says(r *evaluate.Report) string {
	llm := r.LLM
	if llm == "" {
		llm = "one LLM"
	}
	text := fmt.Sprintf("%s: %d of %d rows judged", llm, r.Judged, r.Rows)
	if !evaluate.IsCounted(r.From) && r.Judged > 0 {
		text += fmt.Sprintf(", %s to %s UTC", r.From.Format(time.DateTime), r.To.Format(time.DateTime))
	}
	return text + ", " + splits[r.Split]
}

var splits = map[string]string{
	evaluate.AsLogged: "forecasts as they were logged",
	evaluate.ByTime:   "fitted to the earlier rows, judged on the later",
	evaluate.AtRandom: "fitted to rows drawn at random, judged on the rest",
}

// series tells what each is.
var series = map[string]string{
	evaluate.Prior:       "the analytic prior alone",
	evaluate.Raw:         "as the bundle said it",
	evaluate.Corrected:   "as the policy used it, corrected online",
	evaluate.Frozen:      "as the fit left it",
	evaluate.Prequential: "corrected online by what had ended before",
}
