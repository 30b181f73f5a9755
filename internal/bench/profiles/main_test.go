package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutData(t *testing.T) {
	var out strings.Builder
	if err := run(&out, "", ""); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("no folder: %v", err)
	}
	if err := run(&out, t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "silicon_sample") {
		t.Errorf("an empty folder: %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("it printed %q", out.String())
	}
}

func TestBarsHold(t *testing.T) {
	data := os.Getenv("SPILLWAY_DATA")
	if data == "" {
		t.Skip("SPILLWAY_DATA is not set: the public measurements are not here")
	}
	folder := t.TempDir()
	var first, second strings.Builder
	if err := run(&first, data, folder); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "profiles.json")); err != nil {
		t.Error(err)
	}
	if n := strings.Count(first.String(), "\nbar "); n != 8 {
		t.Errorf("%d bars, want 8", n)
	}
	if err := run(&second, data, ""); err != nil || first.String() != second.String() {
		t.Errorf("a second run prints something else, %v", err)
	}
}
