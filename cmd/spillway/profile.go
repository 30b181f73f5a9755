package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spillway-llm/spillway/internal/physics"
)

// engineProfile resolves an engine profile: the name of a built-in one, with
// -xN to slow it, or a file that fit-profile wrote, which has a slash in it or
// ends in .json.
func engineProfile(nameOrPath string) (physics.Profile, error) {
	if !strings.ContainsRune(nameOrPath, os.PathSeparator) && !strings.HasSuffix(nameOrPath, ".json") {
		return physics.Named(nameOrPath)
	}
	f, err := os.Open(nameOrPath)
	if err != nil {
		return physics.Profile{}, err
	}
	defer f.Close()
	p, err := physics.Load(f)
	if err != nil {
		return p, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	return p, nil
}
