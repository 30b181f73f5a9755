package featurestore_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
)

// The newest calibration of each LLM and class is read back; what is no
// profile is refused.
func TestCalibrations(t *testing.T) {
	store := featurestoretest.New(t)
	profile := func(name string) json.RawMessage {
		return json.RawMessage(`{"name": "` + name + `", "coefficients": {"a": 0.014}}`)
	}
	var ids []int64
	for _, c := range []featurestore.Calibration{
		{LLM: "qwen", Class: "slow", Source: "first", Profile: profile("1")},
		{LLM: "qwen", Class: "slow", Source: "second", Profile: profile("2")},
		{LLM: "qwen", Class: "", Source: "no class", Profile: profile("3")},
		{LLM: "llama", Class: "slow", Source: "another LLM", Profile: profile("4")},
	} {
		id, err := store.AddCalibration(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	want := []featurestore.Calibration{
		{ID: ids[3], LLM: "llama", Class: "slow", Source: "another LLM", Profile: profile("4")},
		{ID: ids[2], LLM: "qwen", Class: "", Source: "no class", Profile: profile("3")},
		{ID: ids[1], LLM: "qwen", Class: "slow", Source: "second", Profile: profile("2")},
	}
	got, err := store.Calibrations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sameJSON := cmp.Comparer(func(a, b json.RawMessage) bool {
		var x, y any
		return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
	})
	if diff := cmp.Diff(want, got, sameJSON, cmpopts.IgnoreFields(featurestore.Calibration{}, "CreatedAt")); diff != "" {
		t.Errorf("calibrations (-want +got):\n%s", diff)
	}
	if got[0].CreatedAt.IsZero() {
		t.Error("a calibration has no time")
	}
	for _, bad := range []string{`{}`, `[]`, `{`, ``} {
		if _, err := store.AddCalibration(t.Context(), featurestore.Calibration{LLM: "qwen", Profile: json.RawMessage(bad)}); err == nil {
			t.Errorf("a profile of %q is stored", bad)
		}
	}
}
