package lightgbm

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Names of the files of a run. LightGBM finds the weights of rows by the name
// of the rows' file.
const (
	configFile   = "train.conf"
	rowsFile     = "rows.tsv"
	judgesFile   = "judges.tsv"
	weightSuffix = ".weight"
	machinesFile = "machines.txt"
	forestFile   = "forest.txt"

	labelColumn = "label"
)

// job is what one run is given.
type job struct {
	dir      string
	data     *gbdt.Data
	opts     *gbdt.Options
	machines []machine
	timeout  time.Duration
}

func (j *job) path(name string) string { return filepath.Join(j.dir, name) }

// write makes the files of the run.
func (j *job) write() error {
	if err := j.writeRows(rowsFile, j.data); err != nil {
		return err
	}
	if j.opts.Validation != nil {
		if err := j.writeRows(judgesFile, j.opts.Validation); err != nil {
			return err
		}
	}
	if len(j.machines) > 0 {
		var list strings.Builder
		for _, m := range j.machines {
			fmt.Fprintln(&list, m.address, m.port)
		}
		if err := os.WriteFile(j.path(machinesFile), []byte(list.String()), 0o600); err != nil {
			return err
		}
	}
	var config strings.Builder
	for _, p := range j.parameters() {
		fmt.Fprintf(&config, "%s = %v\n", p.key, p.value)
	}
	return os.WriteFile(j.path(configFile), []byte(config.String()), 0o600)
}

// parameter is one line of the configuration.
type parameter struct {
	key   string
	value any
}

// parameters say to LightGBM what the options say to gbdt.
func (j *job) parameters() []parameter {
	o := j.opts
	all := []parameter{
		{"task", "train"}, {"boosting", "gbdt"}, {"objective", "regression"}, {"metric", "l2"},
		{"data", j.path(rowsFile)}, {"header", true}, {"label_column", "name:" + labelColumn}, {"output_model", j.path(forestFile)},
		{"num_iterations", o.Trees}, {"num_leaves", o.Leaves}, {"learning_rate", o.LearningRate},
		{"lambda_l1", o.L1}, {"lambda_l2", o.L2}, {"min_gain_to_split", o.MinGain},
		{"min_data_in_leaf", o.MinLeafRows}, {"min_sum_hessian_in_leaf", 0}, {"max_bin", o.Bins},
		{"feature_fraction", o.FeatureFraction}, {"bagging_fraction", o.RowFraction},
		{"seed", o.Seed % (math.MaxInt32 + 1)}, {"deterministic", true}, {"force_row_wise", true},
		{"num_threads", o.Threads}, {"verbosity", 0},
	}
	if o.RowFraction < 1 {
		all = append(all, parameter{"bagging_freq", 1})
	}
	if o.MonotoneSigns != nil {
		signs := make([]string, len(o.MonotoneSigns))
		for i, sign := range o.MonotoneSigns {
			signs[i] = strconv.Itoa(int(sign))
		}
		all = append(all, parameter{"monotone_constraints", strings.Join(signs, ",")}, parameter{"monotone_constraints_method", "basic"})
	}
	if o.Validation != nil {
		all = append(all, parameter{"valid", j.path(judgesFile)}, parameter{"early_stopping_round", o.EarlyStoppingRounds})
	}
	if len(j.machines) > 0 {
		all = append(all, parameter{"tree_learner", "data"}, parameter{"num_machines", len(j.machines)},
			parameter{"machine_list_filename", j.path(machinesFile)}, parameter{"local_listen_port", j.machines[0].port},
			parameter{"time_out", int(math.Ceil(j.timeout.Minutes()))})
	}
	return all
}

// writeRows writes rows with their labels first, and their weights beside. A
// weight column among them would become one more feature.
func (j *job) writeRows(name string, d *gbdt.Data) error {
	err := written(j.path(name), func(w *bufio.Writer) {
		w.WriteString(labelColumn)
		for _, name := range d.FeatureNames {
			w.WriteByte('\t')
			w.WriteString(name)
		}
		w.WriteByte('\n')
		n := len(d.FeatureNames)
		var line []byte
		for i, y := range d.Y {
			line = number(line[:0], y)
			for _, x := range d.X[i*n : (i+1)*n] {
				line = number(append(line, '\t'), x)
			}
			w.Write(append(line, '\n'))
		}
	})
	if err != nil || d.Weights == nil {
		return err
	}
	return written(j.path(name+weightSuffix), func(w *bufio.Writer) {
		var line []byte
		for _, weight := range d.Weights {
			line = append(number(line[:0], weight), '\n')
			w.Write(line)
		}
	})
}

// number appends x as LightGBM reads it: unknown is "nan".
func number(line []byte, x float64) []byte {
	if x != x {
		return append(line, "nan"...)
	}
	return strconv.AppendFloat(line, x, 'g', -1, 64)
}

// written makes a file of what is written; of the writer's errors the last call
// tells the first.
func written(path string, write func(*bufio.Writer)) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<16)
	write(w)
	if err := w.Flush(); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
