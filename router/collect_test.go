package router_test

import (
	"runtime/debug"
	"testing"

	"github.com/spillway-llm/spillway/router"
)

func TestCollectRarely(t *testing.T) {
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	t.Setenv("GOGC", "100")
	router.CollectRarely()
	if p := debug.SetGCPercent(100); p != 100 {
		t.Errorf("GOGC is 100, and %d percent are set", p)
	}
	t.Setenv("GOGC", "")
	router.CollectRarely()
	if p := debug.SetGCPercent(100); p != 400 {
		t.Errorf("%d percent are set", p)
	}
}
