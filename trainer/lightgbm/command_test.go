package lightgbm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/trainer/gbdt"
	"github.com/spillway-llm/spillway/trainer/lightgbm"
)

// installed is a command that plays LightGBM in a mode.
func installed(t *testing.T, mode string) lightgbm.Command {
	t.Helper()
	t.Setenv(stubMode, mode)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector waits a second for each program that ends
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := lightgbm.Command{Path: self, Directory: t.TempDir(), Timeout: time.Minute}
	if err := errors.Join(c.Check(), c.Installed()); err != nil {
		t.Fatal(err)
	}
	return c
}

// rows are some with weights, of which some numbers are unknown.
func rows(seed uint64, n int) gbdt.Data {
	rng := rand.New(rand.NewPCG(seed, 1))
	d := gbdt.Data{FeatureNames: []string{"tokens", "speed", "age"}}
	for range n {
		x := [3]float64{float64(float32(rng.ExpFloat64() * 1e6)), rng.Float64(), float64(float32(rng.NormFloat64()))}
		d.Y = append(d.Y, math.Log1p(x[0])/10-x[1]+0.1*rng.NormFloat64())
		if rng.IntN(5) == 0 {
			x[2] = math.NaN()
		}
		d.X, d.Weights = append(d.X, x[:]...), append(d.Weights, 0.001+rng.Float64())
	}
	return d
}

func options() gbdt.Options {
	o := gbdt.Defaults()
	o.Trees, o.Leaves, o.Seed, o.Threads, o.L1, o.MinGain = 20, 7, 1<<31+5, 1, 0.25, 1e-4
	o.MonotoneSigns = []int8{1, -1, 0}
	return o
}

// TestRowsAndOptionsArriveAsTheyAre: the command grows what is grown here from
// the same rows.
func TestRowsAndOptionsArriveAsTheyAre(t *testing.T) {
	c := installed(t, "grows")
	t.Setenv("DATABASE_URL", "postgres://trainer:secret@db/spillway")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "key=secret")
	data, judges := rows(1, 600), rows(2, 200)
	for name, change := range map[string]func(*gbdt.Data, *gbdt.Options){
		"plain":         func(*gbdt.Data, *gbdt.Options) {},
		"judged":        func(_ *gbdt.Data, o *gbdt.Options) { o.Validation, o.EarlyStoppingRounds, o.Trees = &judges, 3, 100 },
		"alike weights": func(d *gbdt.Data, _ *gbdt.Options) { d.Weights = nil },
		"drawn":         func(_ *gbdt.Data, o *gbdt.Options) { o.RowFraction, o.FeatureFraction, o.Bins = 0.7, 0.7, 31 },
	} {
		t.Run(name, func(t *testing.T) {
			d, o := data, options()
			change(&d, &o)
			f, err := c.Train(t.Context(), d, o)
			if err != nil {
				t.Fatal(err)
			}
			o.Seed %= 1 << 31 // LightGBM's are no larger
			want, err := gbdt.Train(t.Context(), d, o)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(f.Text(), want.Text()) {
				t.Error("the command was given other rows or options")
			}
			if o.Validation != nil && f.Trees() == o.Trees {
				t.Error("all trees were grown, so that nothing was seen of stopping early")
			}
		})
	}
	if left, err := os.ReadDir(c.Directory); err != nil || len(left) != 0 {
		t.Errorf("runs left %v behind (%v)", left, err)
	}
}

func TestSeveralMachines(t *testing.T) {
	c := installed(t, "launches")
	c.Machines = filepath.Join(t.TempDir(), "machines")
	if err := os.WriteFile(c.Machines, []byte("10.0.0.1 12400\n\n 10.0.0.2\t12400\r\nfd00::3 12400"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Train(t.Context(), rows(1, 100), options()); err != nil {
		t.Fatal(err)
	}
	t.Setenv(stubMode, "grows")
	if _, err := c.Train(t.Context(), rows(1, 100), options()); err == nil || !strings.Contains(err.Error(), "was started on one") {
		t.Errorf("error %v, want that of the program", err)
	}
	for text, want := range map[string]string{
		"":                              "lists 0 machines",
		"10.0.0.1 12400":                "lists 1 machines",
		"10.0.0.1 12400\nhost 12400":    "line 2: want an IP address",
		"10.0.0.1:12400\n10.0.0.2:1":    "line 1: want an IP address, a blank and a port",
		"10.0.0.1 0\n10.0.0.2 1":        `line 1: port "0"`,
		"10.0.0.1 1\n10.0.0.2 2":        "line 2: port 2 after 1",
		"10.0.0.1 65536\n10.0.0.2 5":    `line 1: port "65536"`,
		strings.Repeat("::1 1\n", 1025): "more than 1024 machines",
		"::1 1\n::2 1\n" + strings.Repeat("\n", 64<<10) + "::3 1\n": "more than 65536 bytes",
	} {
		if err := os.WriteFile(c.Machines, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Installed(); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "machines: ") {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

// TestWhatGoesWrongIsSaid: no forest comes of it.
func TestWhatGoesWrongIsSaid(t *testing.T) {
	data := rows(1, 100)
	good, err := gbdt.Train(t.Context(), data, options())
	if err != nil {
		t.Fatal(err)
	}
	text := string(good.Text())
	for want, spoil := range map[string]func(*lightgbm.Command, *gbdt.Options){
		"it is not done after 50ms":           func(c *lightgbm.Command, _ *gbdt.Options) { *c, c.Timeout = installed(t, "hangs"), 50*time.Millisecond },
		"ended well and wrote no forest":      func(c *lightgbm.Command, _ *gbdt.Options) { *c = installed(t, "ends") },
		"[Fatal] train: option MonotoneSigns": func(_ *lightgbm.Command, o *gbdt.Options) { o.MonotoneSigns = []int8{1} },
		"path: exec: ":                        func(c *lightgbm.Command, _ *gbdt.Options) { c.Path = "no-such-lightgbm" },
		"directory: ":                         func(c *lightgbm.Command, _ *gbdt.Options) { c.Directory = "/nowhere" },
		"on squared error":                    func(_ *lightgbm.Command, o *gbdt.Options) { o.Objective = gbdt.AbsoluteError },
		"not a LightGBM text":                 func(*lightgbm.Command, *gbdt.Options) { t.Setenv(stubText, "<html>") },
		"the text is cut short":               func(*lightgbm.Command, *gbdt.Options) { t.Setenv(stubText, text[:strings.Index(text, "end of trees")]) },
		"of other features":                   func(*lightgbm.Command, *gbdt.Options) { t.Setenv(stubText, falling([]string{"age"})) },
		"for objective": func(*lightgbm.Command, *gbdt.Options) {
			t.Setenv(stubText, strings.Replace(text, "objective=regression", "objective=binary sigmoid:1", 1))
		},
		"of 20 trees, asked for at most 5":      func(_ *lightgbm.Command, o *gbdt.Options) { t.Setenv(stubText, text); o.Trees = 5 },
		"leaves, asked for at most 2":           func(_ *lightgbm.Command, o *gbdt.Options) { t.Setenv(stubText, text); o.Leaves = 2 },
		"is not monotone: tree 0: from 2 to 1 ": func(*lightgbm.Command, *gbdt.Options) { t.Setenv(stubText, falling(data.FeatureNames)) },
	} {
		t.Setenv(stubText, "")
		c, o := installed(t, "writes"), options()
		if strings.HasPrefix(want, "[Fatal]") {
			c = installed(t, "grows")
		}
		spoil(&c, &o)
		f, err := c.Train(t.Context(), data, o)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "lightgbm: ") {
			t.Errorf("error %v, want %q", err, want)
		}
		if f != nil {
			t.Errorf("a forest beside the error %v", err)
		}
	}
}

// TestWhatItStartedEndsWithIt: a process that the program has started holds a
// fifo, which closes when it is gone.
func TestWhatItStartedEndsWithIt(t *testing.T) {
	c := installed(t, "hangs")
	fifo := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(stubFifo, fifo)
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() {
		defer cancel()
		held, err := os.Open(fifo) // waits until the other end is open
		if err == nil {
			_, err = io.ReadFull(held, make([]byte, 1))
		}
		cancel()
		if err == nil {
			_, err = io.Copy(io.Discard, held)
			held.Close()
		}
		read <- err
	}()
	if _, err := c.Train(ctx, rows(1, 10), options()); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the context", err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// TestWhatItLeavesBehindEndsToo: so does what a program has started that ended
// well itself.
func TestWhatItLeavesBehindEndsToo(t *testing.T) {
	data := rows(1, 100)
	good, err := gbdt.Train(t.Context(), data, options())
	if err != nil {
		t.Fatal(err)
	}
	c := installed(t, "abandons")
	fifo := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(stubFifo, fifo)
	t.Setenv(stubText, string(good.Text()))
	read := make(chan error, 1)
	go func() {
		held, err := os.Open(fifo) // waits until the other end is open
		if err == nil {
			_, err = io.Copy(io.Discard, held)
			held.Close()
		}
		read <- err
	}()
	if _, err := c.Train(t.Context(), data, options()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("what the program has started goes on")
	}
}

// TestDirectoryOfTheSystem: it is checked as a configured one is.
func TestDirectoryOfTheSystem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a=b")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := installed(t, "grows")
	c.Directory = ""
	t.Setenv("TMPDIR", dir)
	if err := c.Installed(); err == nil || !strings.HasPrefix(err.Error(), "directory: ") {
		t.Errorf("error %v, want one about the directory", err)
	}
	if _, err := c.Train(t.Context(), rows(1, 100), options()); err == nil || !strings.HasPrefix(err.Error(), "lightgbm: directory: ") {
		t.Errorf("error %v, want one about the directory", err)
	}
}

func TestCheckNamesTheKey(t *testing.T) {
	good := lightgbm.Command{Path: "lightgbm", Timeout: time.Minute}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for key, change := range map[string]func(*lightgbm.Command){
		"path: is empty":      func(c *lightgbm.Command) { c.Path = "" },
		"directory: \"/a#b\"": func(c *lightgbm.Command) { c.Directory = "/a#b" },
		"directory: \"/a=b\"": func(c *lightgbm.Command) { c.Directory = "/a=b" },
		"directory: is empty": func(c *lightgbm.Command) { c.Machines = "/machines" },
		"timeout: ":           func(c *lightgbm.Command) { c.Timeout = 0 },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("error %v, want it to begin with %q", err, key)
		}
	}
}
