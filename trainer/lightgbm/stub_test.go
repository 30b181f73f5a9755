package lightgbm_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// The test binary plays LightGBM when this is set: it speaks the documented
// command line and files, and boosts with package gbdt.
const (
	stubMode = "SPILLWAY_STUB_LIGHTGBM"
	stubFifo = "SPILLWAY_STUB_FIFO" // held open by a process that hangs
	stubText = "SPILLWAY_STUB_TEXT" // what mode "writes" writes for a forest
)

func TestMain(m *testing.M) {
	mode, play := os.LookupEnv(stubMode)
	if !play {
		os.Exit(m.Run())
	}
	if err := stub(mode, os.Args[1:]); err != nil {
		fmt.Println("[LightGBM] [Info] nothing of interest")
		fmt.Println("[LightGBM] [Fatal]", err)
		fmt.Println("Met Exceptions:")
		os.Exit(255)
	}
}

func stub(mode string, args []string) error {
	config, err := stubConfig(args)
	if err != nil {
		return err
	}
	switch mode {
	case "ends":
		return nil
	case "hangs":
		return hang(args)
	case "abandons":
		if slices.Contains(args, "seed=1") {
			return hang(args)
		}
		if err := abandon(args); err != nil {
			return err
		}
		return os.WriteFile(config["output_model"], []byte(os.Getenv(stubText)), 0o600)
	case "writes":
		return os.WriteFile(config["output_model"], []byte(os.Getenv(stubText)), 0o600)
	case "launches": // a script that starts LightGBM on every machine
		list, err := os.ReadFile(config["machine_list_filename"])
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(list)) {
			rank := exec.Command(os.Args[0], args...)
			rank.Env = append(os.Environ(), stubMode+"="+strings.Fields(line)[0])
			if out, err := rank.CombinedOutput(); err != nil {
				return fmt.Errorf("on %s: %w: %s", line, err, out)
			}
		}
		return nil
	}
	if err := checkMachines(config, mode); err != nil {
		return err
	}
	for _, name := range []string{"DATABASE_URL", "OTEL_EXPORTER_OTLP_HEADERS"} {
		if secret, told := os.LookupEnv(name); told {
			return fmt.Errorf("was told %s", secret)
		}
	}
	return boost(config)
}

// stubParameters are those that LightGBM documents, of those that a trainer
// may want, with their defaults.
var stubParameters = map[string]string{
	"task": "train", "boosting": "gbdt", "objective": "regression", "metric": "", "data": "", "valid": "", "header": "false", "label_column": "",
	"output_model": "LightGBM_model.txt", "num_iterations": "100", "num_leaves": "31", "learning_rate": "0.1", "lambda_l1": "0", "lambda_l2": "0",
	"min_gain_to_split": "0", "min_data_in_leaf": "20", "min_sum_hessian_in_leaf": "1e-3", "max_bin": "255", "feature_fraction": "1", "bagging_fraction": "1",
	"bagging_freq": "0", "seed": "", "deterministic": "false", "force_row_wise": "false", "num_threads": "0", "verbosity": "1",
	"monotone_constraints": "", "monotone_constraints_method": "basic", "early_stopping_round": "0",
	"tree_learner": "serial", "num_machines": "1", "machine_list_filename": "", "local_listen_port": "12400", "time_out": "120",
}

// stubConfig reads key=value arguments over the lines of the file that config
// names.
func stubConfig(args []string) (map[string]string, error) {
	given := map[string]string{}
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found {
			return nil, fmt.Errorf("unknown parameter in command line: %s", arg)
		}
		given[key] = value
	}
	text, err := os.ReadFile(given["config"])
	if err != nil {
		return nil, err
	}
	delete(given, "config")
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		key, value, _ := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		if _, more := given[key]; !more { // the command line goes before the file
			given[key] = strings.TrimSpace(value)
		}
	}
	for key := range given {
		if _, known := stubParameters[key]; !known {
			return nil, fmt.Errorf("unknown parameter: %s", key)
		}
	}
	for key, value := range stubParameters {
		if _, set := given[key]; !set {
			given[key] = value
		}
	}
	return given, nil
}

// checkMachines plays one of several machines: it must be in the list.
func checkMachines(config map[string]string, mode string) error {
	if config["num_machines"] == "1" {
		return nil
	}
	list, err := os.ReadFile(config["machine_list_filename"])
	if err != nil {
		return err
	}
	if _, err := netip.ParseAddr(mode); err != nil {
		return errors.New("several machines, and LightGBM was started on one")
	}
	if !strings.Contains(string(list), mode+" "+config["local_listen_port"]+"\n") {
		return errors.New("Machine list file doesn't contain the local machine")
	}
	if config["tree_learner"] == "serial" || strconv.Itoa(strings.Count(string(list), "\n")) != config["num_machines"] || config["time_out"] == "0" {
		return fmt.Errorf("these machines can't work together: %v", config)
	}
	return nil
}

func boost(config map[string]string) error {
	if config["objective"] != "regression" && config["monotone_constraints"] != "" {
		return fmt.Errorf("Cannot use ``monotone_constraints`` in %s objective, please disable it.", config["objective"])
	}
	var wrong error
	number := func(key string) float64 {
		x, err := strconv.ParseFloat(config[key], 64)
		if err != nil {
			wrong = fmt.Errorf("%s: %w", key, err)
		}
		return x
	}
	opts := gbdt.Options{
		Trees: int(number("num_iterations")), Leaves: int(number("num_leaves")), LearningRate: number("learning_rate"),
		L1: number("lambda_l1"), L2: number("lambda_l2"), MinGain: number("min_gain_to_split"), MinLeafRows: int(number("min_data_in_leaf")),
		Bins: int(number("max_bin")), FeatureFraction: number("feature_fraction"), RowFraction: number("bagging_fraction"),
		Seed: uint64(number("seed")), Threads: int(number("num_threads")), EarlyStoppingRounds: int(number("early_stopping_round")),
	}
	if config["bagging_freq"] == "0" {
		opts.RowFraction = 1
	}
	for sign := range strings.SplitSeq(config["monotone_constraints"], ",") {
		s, err := strconv.ParseInt(sign, 10, 8)
		if err != nil {
			return err
		}
		opts.MonotoneSigns = append(opts.MonotoneSigns, int8(s))
	}
	if config["header"] != "true" || config["label_column"] != "name:label" || config["deterministic"] != "true" {
		return fmt.Errorf("other rows than this program reads: %v", config)
	}
	data, err := readRows(config["data"])
	if err != nil {
		return err
	}
	if config["valid"] != "" {
		judges, err := readRows(config["valid"])
		if err != nil {
			return err
		}
		opts.Validation = &judges
	}
	if wrong != nil {
		return wrong
	}
	f, err := gbdt.Train(context.Background(), data, opts)
	if err != nil {
		return err
	}
	return os.WriteFile(config["output_model"], f.Text(), 0o600)
}

// readRows reads a table with a header, its label first, and the weights beside
// it.
func readRows(path string) (d gbdt.Data, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return d, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan()
	names := strings.Split(lines.Text(), "\t")
	if names[0] != "label" {
		return d, fmt.Errorf("Could not find label column in %s", filepath.Base(path))
	}
	d.FeatureNames = names[1:]
	for lines.Scan() {
		values, err := numbers(strings.Split(lines.Text(), "\t"))
		if err != nil || len(values) != len(names) {
			return d, fmt.Errorf("a row of %d numbers: %w", len(values), err)
		}
		d.Y, d.X = append(d.Y, values[0]), append(d.X, values[1:]...)
	}
	if text, err = os.ReadFile(path + ".weight"); err != nil {
		return d, nil
	}
	d.Weights, err = numbers(strings.Fields(string(text)))
	return d, err
}

func numbers(fields []string) ([]float64, error) {
	var out []float64
	for _, field := range fields {
		x, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, err
		}
		if x != x {
			x = math.NaN()
		}
		out = append(out, x)
	}
	return out, nil
}

// hang starts one more that hangs, which holds the fifo open.
func hang(args []string) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if fifo := os.Getenv(stubFifo); fifo != "" && !slices.Contains(args, "seed=1") {
		child := exec.Command(os.Args[0], append(args, "seed=1")...)
		if err := child.Start(); err != nil {
			return err
		}
	} else if fifo != "" {
		held, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer held.Close()
		if _, err := held.WriteString("!"); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "holds it")
	}
	<-interrupted
	return nil
}

// abandon starts one that hangs, holds the fifo and has the same output, and
// ends once it does.
func abandon(args []string) error {
	child := exec.Command(os.Args[0], append(args, "seed=1")...)
	child.Stdout = os.Stdout
	says, err := child.StderrPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	_, err = says.Read(make([]byte, 1))
	return err
}

// falling is a forest that falls with its first feature.
func falling(names []string) string {
	f, err := forest.New(forest.Header{Objective: "regression", FeatureNames: names}, []forest.Tree{{
		Splits: []forest.Split{{Threshold: 1, Left: ^0, Right: ^1, Missing: forest.MissingNaN}}, Leaves: []forest.Leaf{{Value: 2}, {Value: 1}},
	}})
	if err != nil {
		panic(err)
	}
	return string(f.Text())
}
