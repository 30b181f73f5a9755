package front_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/front"
)

func TestRoom(t *testing.T) {
	r := front.NewRoom(10)
	for _, n := range []int{4, 6} {
		if err := r.Take(n); err != nil {
			t.Fatal(err)
		}
	}
	var f front.Fault
	if err := r.Take(1); !errors.As(err, &f) || f.Status != http.StatusServiceUnavailable || f.Reason != front.ReasonRoom || f.RetryAfter != time.Second {
		t.Errorf("a byte too many: %v", err)
	}
	r.Give(6)
	if err := r.Take(6); err != nil { // what was refused took nothing
		t.Error(err)
	}
	if err := front.NewRoom(0).Take(1 << 40); err != nil {
		t.Errorf("without a bound: %v", err)
	}
	for most, fine := range map[int64]bool{0: true, 200: true, 199: false, -1: false} {
		if err := front.CheckRoom(most, 100); (err == nil) != fine {
			t.Errorf("%d for bodies of 100: %v", most, err)
		}
	}
}
