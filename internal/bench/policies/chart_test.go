package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestAblationsAndChartTellOfAllThereIs(t *testing.T) {
	w := small(t, "mixed", 20*time.Second, 2)
	w.group = mixed
	run := append([]arm{}, arms...)
	run = append(run, ablations...)
	studies, err := runAll(context.Background(), []*world{w}, run, []uint64{1, 2, 3}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	writeAblations(&text, studies)
	for _, a := range ablations {
		if !strings.Contains(text.String(), "| "+a.name+" |") {
			t.Errorf("nothing is said of %s", a.name)
		}
	}
	if !strings.Contains(text.String(), "2 seeds") {
		t.Errorf("ablations run with half of 3 seeds, rounded up: %s", text.String())
	}
	if svg := string(chart(studies).SVG()); !strings.Contains(svg, "mixed, 2") || !strings.Contains(svg, predicted) {
		t.Error("the chart lacks the world, or predicted")
	}
}
