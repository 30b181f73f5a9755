package plot_test

import (
	"math"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/plot"
)

func TestRowsDrawWhatTheyAreGiven(t *testing.T) {
	nan := math.NaN()
	rows := plot.Rows{
		Title: `change <"&> world`, X: "%", Series: []string{"ours", "theirs"}, Least: -50, Most: 50,
		Rows: []plot.Row{
			{Label: "mixed", Head: true},
			{Label: "60 %", Values: []plot.Value{{-20, -30, -10}, {10, nan, nan}}},
			{Label: "90 %", Values: []plot.Value{{-80, -90, -70}, {400, 300, 500}}},
			{Label: "nothing", Values: []plot.Value{{nan, nan, nan}}},
		},
	}
	svg := string(rows.SVG())
	count := elements(t, svg)
	if got := count["circle"]; got != 2+2 { // legend, and the values inside the axis
		t.Errorf("%d circles, want 4", got)
	}
	if got := count["path"]; got != 2 {
		t.Errorf("%d arrows, want 2", got)
	}
	for _, want := range []string{"+400", "60 %", "theirs", "change &lt;&#34;&amp;&gt; world"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the drawing", want)
		}
	}
}
