package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/router"
)

// A router that shares nothing writes digests under its salt too.
func TestSaltOfOneRouter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "salt")
	salted := func(secret string) (string, error) {
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var config router.Config
		c := RouterConfig{Share: ShareConfig{SaltFile: file}}
		err := c.salt(&config)
		return config.Route.Salt, err
	}
	one, err := salted("0123456789abcdef")
	if err != nil || one == "" {
		t.Errorf("salt %q, %v", one, err)
	}
	if again, _ := salted("0123456789abcdef"); again != one {
		t.Error("another salt after a restart")
	}
	if other, _ := salted("fedcba9876543210"); other == one {
		t.Error("two secrets give one salt")
	}
	if _, err := salted("short"); err == nil || !strings.Contains(err.Error(), "router.share_salt_file") {
		t.Errorf("of a short secret: %v", err)
	}
}
