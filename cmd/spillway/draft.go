package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// draft is a file that takes its name only once it is whole: until then, and
// if it never is, what stood there before stays. What is no regular file, such
// as a pipe, is written to at once and never removed.
type draft struct {
	*os.File
	name string // to take; empty where there is nothing to take
}

// draftOf begins the file of that name; "" gives nil, which ends well.
func draftOf(name string) (*draft, error) {
	if name == "" {
		return nil, nil
	}
	device := strings.HasPrefix(name, "/dev/") // also /dev/stdout that leads to a file
	if real, err := filepath.EvalSymlinks(name); err == nil && !device {
		name = real
	}
	if info, err := os.Stat(name); err == nil && (device || !info.Mode().IsRegular()) {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return nil, err
		}
		return &draft{File: file}, nil
	}
	file, err := os.Create(name + ".part")
	if err != nil {
		return nil, err
	}
	return &draft{file, name}, nil
}

// end closes the file and, unless the writing failed, lets it take its name.
func (d *draft) end(failed error) error {
	if d == nil {
		return failed
	}
	err := errors.Join(failed, d.Close())
	switch {
	case d.name == "":
		return err
	case err != nil:
		return errors.Join(err, os.Remove(d.Name()))
	}
	if err := os.Rename(d.Name(), d.name); err != nil {
		return fmt.Errorf("name the whole file: %w", err)
	}
	return nil
}
