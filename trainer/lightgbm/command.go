package lightgbm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Command is LightGBM as it is installed.
type Command struct {
	// Path of the program, or its name in PATH. It is run with one argument,
	// config=FILE, and may be a script that runs LightGBM with it on each machine.
	Path string
	// Machines is the path of a file with a line "address port" for each of the
	// machines that work together, this one among them; empty: this one alone.
	Machines string
	// Directory is where files are written, in a folder for each run that is
	// removed after it; empty: the system's temporary directory. With Machines, all
	// of them must see it under this path.
	Directory string
	Timeout   time.Duration // of one run
}

// Check reports what no run could work with, by its key.
func (c *Command) Check() error {
	switch {
	case c.Path == "":
		return errors.New(`path: is empty; want the program, such as "lightgbm"`)
	case c.Machines != "" && c.Directory == "":
		return errors.New("directory: is empty; with machines want one that all of them see")
	case c.Timeout <= 0:
		return errors.New("timeout: must be positive")
	}
	return named(c.Directory)
}

// named reports a directory that LightGBM's parameters can't name.
func named(directory string) error {
	if strings.ContainsAny(directory, "#=,\"\r\n") {
		return fmt.Errorf("directory: %q holds '#', '=', ',', '\"' or a line break, which LightGBM's parameters can't", directory)
	}
	return nil
}

// Installed reports what is missing on this machine, by its key.
func (c *Command) Installed() error {
	if _, err := c.program(); err != nil {
		return err
	}
	if _, err := c.directory(); err != nil {
		return err
	}
	_, err := c.machines()
	return err
}

// directory is the absolute path of where files are written.
func (c *Command) directory() (string, error) {
	found, err := filepath.Abs(cmp.Or(c.Directory, os.TempDir()))
	if err == nil {
		_, err = os.Stat(found)
	}
	if err != nil {
		return "", fmt.Errorf("directory: %w", err)
	}
	return found, named(found)
}

// program is the absolute path of the program: a run has a working directory
// of its own.
func (c *Command) program() (string, error) {
	found, err := exec.LookPath(c.Path)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	return found, nil
}

// Train grows a forest on squared error as gbdt.Train does; other objectives are
// refused, because LightGBM keeps none of those that trainers need monotone. It
// ends when the context or the timeout does, and what the program has started
// ends with the program. The forest is checked: it must be LightGBM text that package
// forest evaluates, with the columns of the data and no more trees and leaves than
// asked for, and must move with no feature against its sign.
func (c *Command) Train(ctx context.Context, data gbdt.Data, opts gbdt.Options) (*forest.Forest, error) {
	f, err := c.train(ctx, &data, &opts)
	if err != nil {
		return nil, fmt.Errorf("lightgbm: %w", err)
	}
	return f, nil
}

func (c *Command) train(ctx context.Context, data *gbdt.Data, opts *gbdt.Options) (*forest.Forest, error) {
	if opts.Objective != gbdt.SquaredError || opts.Start != nil {
		return nil, errors.New("only grows new forests on squared error")
	}
	program, err := c.program()
	if err != nil {
		return nil, err
	}
	machines, err := c.machines()
	if err != nil {
		return nil, err
	}
	directory, err := c.directory()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(directory, "spillway-lightgbm-")
	if err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	defer os.RemoveAll(dir)
	j := job{dir: dir, data: data, opts: opts, machines: machines, timeout: c.Timeout}
	if err := j.write(); err != nil {
		return nil, fmt.Errorf("write its files: %w", err)
	}
	if err := run(ctx, program, dir, j.path(configFile), c.Timeout); err != nil {
		return nil, err
	}
	text, err := readForest(j.path(forestFile))
	if err != nil {
		return nil, err
	}
	f, err := forest.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("it wrote a forest that can't be used: %w", err)
	}
	return f, fits(f, data, opts)
}

// readForest reads what the program wrote, of which nothing is known yet.
func readForest(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("it ended well and wrote no forest")
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, forest.MaxBytes+1))
}

// fits reports in what a forest is not the one that was asked for.
func fits(f *forest.Forest, data *gbdt.Data, opts *gbdt.Options) error {
	h := f.Header()
	switch objective, _, _ := strings.Cut(h.Objective, " "); {
	case !slices.Equal(h.FeatureNames, data.FeatureNames):
		return errors.New("it wrote a forest of other features than it was given")
	case objective != "regression":
		return fmt.Errorf("it wrote a forest for objective %q, asked for regression", h.Objective)
	case f.Trees() > opts.Trees:
		return fmt.Errorf("it wrote a forest of %d trees, asked for at most %d", f.Trees(), opts.Trees)
	}
	for i := range f.Trees() {
		if n := len(f.Tree(i).Leaves); n > opts.Leaves {
			return fmt.Errorf("it wrote a tree of %d leaves, asked for at most %d", n, opts.Leaves)
		}
	}
	if err := falls(f, opts.MonotoneSigns); err != nil {
		return fmt.Errorf("it wrote a forest that is not monotone: %w", err)
	}
	return nil
}
