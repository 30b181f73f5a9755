package featurestore

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A spool that an earlier version left is read: its decisions lack what came later.
func TestOlderRecordsAreRead(t *testing.T) {
	want := decisionRecord()
	want.decision.PromptDigest, want.decision.Experiment, want.decision.Arm = nil, "", ""
	whole := want.append(nil) // ends in three empty texts
	for kind, later := range map[byte]int{kindDecision1: 3, kindDecision3: 2, kindDecision: 0} {
		old := append([]byte{kind}, whole[1:len(whole)-later]...)
		got, err := decodeRecord(old)
		if err != nil {
			t.Errorf("kind %d: %v", kind, err)
			continue
		}
		if diff := cmp.Diff([]record{want}, []record{got}, sameRecords); diff != "" {
			t.Errorf("kind %d:\n%s", kind, diff)
		}
		if _, err := decodeRecord(old[:len(old)-1]); err == nil {
			t.Errorf("kind %d is read without its last byte", kind)
		}
	}
}

// decisionRecord is some record of a decision.
func decisionRecord() record {
	rng := rand.New(rand.NewPCG(1, 1))
	for {
		if r := someRecord(rng, 3); r.decision != nil {
			return r
		}
	}
}
