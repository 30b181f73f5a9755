package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// rival is the process in which another tool trains.
type rival struct {
	tool, folder string
	cmd          *exec.Cmd
	in           io.WriteCloser
	out          *bufio.Reader
}

// job is one training call of another tool.
type job struct {
	Tool      string  `json:"tool"`
	Objective string  `json:"objective"` // "squared" or "quantile"
	Alpha     float64 `json:"alpha"`
	Rows      int     `json:"rows"`
	Trees     int     `json:"trees"`
	Leaves    int     `json:"leaves"`
	Rate      float64 `json:"rate"`
	L2        float64 `json:"l2"`
	LeastRows int     `json:"least_rows"`
	Bins      int     `json:"bins"`
	Threads   int     `json:"threads"`
}

// took is what a training call took, in seconds.
type took struct {
	Wall float64 `json:"wall"`
	CPU  float64 `json:"cpu"`
}

// startRivals starts a process for each tool, on the rows that stand in folder.
func startRivals(ctx context.Context, s settings, folder string) ([]*rival, error) {
	var all []*rival
	for _, tool := range []struct {
		name string
		env  []string
	}{
		{"xgboost", nil},
		// Its time is not judged, and its threads that wait busily make it a
		// hundred times slower where others use the machine.
		{"sklearn", []string{"OMP_WAIT_POLICY=passive"}},
	} {
		r, err := startRival(ctx, s, folder, tool.name, tool.env)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func startRival(ctx context.Context, s settings, folder, tool string, env []string) (*rival, error) {
	cmd := exec.CommandContext(ctx, s.python, "scripts/bench-gbdt.py", folder, strconv.Itoa(len(names)))
	cmd.Stderr = os.Stderr
	for _, setting := range os.Environ() {
		// Settings for other processors' OpenBLAS would slow this one's.
		if !strings.HasPrefix(setting, "OPENBLAS_") {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	cmd.Env = append(append(cmd.Env, "OMP_NUM_THREADS="+strconv.Itoa(s.threads)), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.python, err)
	}
	return &rival{tool: tool, folder: folder, cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// train runs one job and returns its predictions for n held-out rows.
func (r *rival) train(j job, n int) (took, []float64, error) {
	j.Tool = r.tool
	line, err := json.Marshal(j)
	if err != nil {
		return took{}, nil, err
	}
	if _, err := r.in.Write(append(line, '\n')); err != nil {
		return took{}, nil, fmt.Errorf("%s: %w", r.tool, err)
	}
	answer, err := r.out.ReadBytes('\n')
	if err != nil {
		return took{}, nil, fmt.Errorf("%s gave no answer: %w", r.tool, err)
	}
	var t took
	if err := json.Unmarshal(answer, &t); err != nil {
		return took{}, nil, fmt.Errorf("%s answered %q: %w", r.tool, answer, err)
	}
	predictions, err := readNumbers(filepath.Join(r.folder, "predictions"), n)
	return t, predictions, err
}

// stop ends the process.
func (r *rival) stop() error {
	r.in.Close()
	return r.cmd.Wait()
}
