package measured

import (
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Deployment says what was measured: rows of one deployment can be described
// by one profile.
type Deployment struct {
	LLM            string
	GPU            string // accelerator, as the source spells it ("h100_sxm")
	Engine         string // "vllm", "sglang", "trtllm"
	Version        string // of the engine; "" when not told
	Precision      string // of the weights; "" when not told
	TensorParallel int
	ExpertParallel int  // 1 where there are no experts or they are not spread
	DataParallel   int  // attention ranks, each with a batch of its own
	Split          bool // prefill and decode ran on engines of their own
}

// String names d in one line without spaces.
func (d Deployment) String() string {
	s := fmt.Sprintf("%s/%s/%s", d.LLM, d.GPU, d.Engine)
	if d.Version != "" {
		s += "-" + d.Version
	}
	if d.Precision != "" {
		s += "/" + d.Precision
	}
	s += fmt.Sprintf("/tp%d", d.TensorParallel)
	if d.ExpertParallel > 1 {
		s += fmt.Sprintf("/ep%d", d.ExpertParallel)
	}
	if d.DataParallel > 1 {
		s += fmt.Sprintf("/dp%d", d.DataParallel)
	}
	if d.Split {
		s += "/disagg"
	}
	return s
}

// SteadyState is one measurement of a closed loop: so many clients, each of
// which sends its next request when its last has ended.
type SteadyState struct {
	Deployment   Deployment
	PromptTokens float64
	OutputTokens float64
	Concurrency  float64 // clients for each data-parallel rank
	TTFT         feature.Seconds
	TPOT         feature.Seconds
}

// Silicon reads the measured rows of NVIDIA's aiconfigurator: CSV with a
// header. Split prefill and decode deployments (mode other than "agg") are
// marked and have no tensor parallelism of their own.
func Silicon(r io.Reader) iter.Seq2[SteadyState, error] {
	t := &table{wanted: []string{"backend", "model_path", "system", "mode", "isl", "osl", "tp_size", "silicon_ttft_ms", "silicon_tpot_ms"}}
	return read(r, func(line []byte) (SteadyState, error) {
		if err := t.next(line); err != nil {
			return SteadyState{}, err
		}
		row := SteadyState{
			Deployment: Deployment{
				LLM: t.text("model_path"), GPU: t.text("system"), Engine: t.text("backend"),
				Version: t.text("backend_version"), Precision: t.text("precision"),
				TensorParallel: t.count("tp_size", 0),
				ExpertParallel: max(1, t.count("moe_ep_size", 1)),
				DataParallel:   max(1, t.count("attention_dp_size", 1)),
				Split:          t.text("mode") != "agg",
			},
			PromptTokens: t.number("isl", 1, maxTokens),
			OutputTokens: t.number("osl", 2, maxTokens),
			TTFT:         feature.Seconds(t.number("silicon_ttft_ms", 1e-3, 1000*maxSeconds) / 1000),
			TPOT:         feature.Seconds(t.number("silicon_tpot_ms", 1e-3, 1000*maxSeconds) / 1000),
		}
		clients := concurrency(t.text("silicon_data_source"))
		if clients == 0 {
			clients = t.count("batch_size", 0)
		}
		switch {
		case t.err != nil:
			return SteadyState{}, t.err
		case clients < 1 && !row.Deployment.Split:
			return SteadyState{}, fmt.Errorf("neither silicon_concurrency nor batch_size tells how many clients there were")
		case row.Deployment.TensorParallel < 1 && !row.Deployment.Split:
			return SteadyState{}, fmt.Errorf("tp_size is missing")
		case row.Deployment.LLM == "" || row.Deployment.GPU == "":
			return SteadyState{}, fmt.Errorf("model_path or system is empty")
		}
		row.Concurrency = max(1, float64(clients)/float64(row.Deployment.DataParallel))
		return row, nil
	})
}

var siliconConcurrency = regexp.MustCompile(`silicon_concurrency=([0-9]{1,7})(;|$)`)

// concurrency finds the number of clients in the column that tells where a row
// is from; 0 when it does not say.
func concurrency(source string) int {
	m := siliconConcurrency.FindStringSubmatch(source)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// Batch is one measurement of a batch that starts and ends together.
type Batch struct {
	Deployment   Deployment
	PromptTokens float64 // of each sequence
	OutputTokens float64 // of each sequence
	Sequences    float64
	Prefill      feature.Seconds // of all prompts
	Step         feature.Seconds // mean of the decode steps
}

// Splitwise reads the performance model of the Splitwise simulator: CSV with
// a header, several runs a point.
func Splitwise(r io.Reader) iter.Seq2[Batch, error] {
	t := &table{wanted: []string{"model", "hardware", "prompt_size", "batch_size", "token_size", "prompt_time", "token_time", "tensor_parallel"}}
	return read(r, func(line []byte) (Batch, error) {
		if err := t.next(line); err != nil {
			return Batch{}, err
		}
		row := Batch{
			Deployment: Deployment{
				LLM: t.text("model"), GPU: t.text("hardware"),
				TensorParallel: t.count("tensor_parallel", 0), ExpertParallel: 1, DataParallel: 1,
			},
			PromptTokens: t.number("prompt_size", 1, maxTokens),
			OutputTokens: t.number("token_size", 1, maxTokens),
			Sequences:    t.number("batch_size", 1, maxTokens),
			Prefill:      feature.Seconds(t.number("prompt_time", 1e-3, 1000*maxSeconds) / 1000),
			Step:         feature.Seconds(t.number("token_time", 1e-3, 1000*maxSeconds) / 1000),
		}
		if t.err == nil && row.Deployment.TensorParallel < 1 {
			t.err = fmt.Errorf("tensor_parallel is missing")
		}
		if t.err != nil {
			return Batch{}, t.err
		}
		return row, nil
	})
}
