package measured

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Served is one request with the times its engine noted. All but Arrival are
// of the engine's own clock, whose origin means nothing.
type Served struct {
	ID           string
	PromptTokens float64
	OutputTokens float64
	Arrival      float64         // at the client, Unix seconds
	Queued       feature.Seconds // entered the engine's queue
	Scheduled    feature.Seconds // first entered a batch
	FirstToken   feature.Seconds
	LastToken    feature.Seconds
}

// Wait is the time in the engine's queue.
func (s Served) Wait() feature.Seconds { return s.Scheduled - s.Queued }

// Prefill is the time from the queue to the first token.
func (s Served) Prefill() feature.Seconds { return s.FirstToken - s.Scheduled }

// Decode is the time from the first token to the last.
func (s Served) Decode() feature.Seconds { return s.LastToken - s.FirstToken }

// ServingSim reads the measured requests of LLMServingSim: JSON lines, one a
// request, in order of arrival.
func ServingSim(r io.Reader) iter.Seq2[Served, error] {
	return read(r, func(line []byte) (Served, error) {
		var row struct {
			ID        string   `json:"request_id"`
			Prompt    *float64 `json:"input_toks"`
			Output    *float64 `json:"output_toks"`
			Arrival   *float64 `json:"arrival_time"`
			Queued    *float64 `json:"queued_ts"`
			Scheduled *float64 `json:"scheduled_ts"`
			First     *float64 `json:"first_token_ts"`
			Last      *float64 `json:"last_token_ts"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return Served{}, err
		}
		const clock = 1e11 // seconds: the year 5138
		for _, x := range []struct {
			name        string
			value       *float64
			least, most float64
		}{
			{"input_toks", row.Prompt, 1, maxTokens},
			{"output_toks", row.Output, 1, maxTokens},
			{"arrival_time", row.Arrival, 0, clock},
			{"queued_ts", row.Queued, 0, clock},
			{"scheduled_ts", row.Scheduled, 0, clock},
			{"first_token_ts", row.First, 0, clock},
			{"last_token_ts", row.Last, 0, clock},
		} {
			if err := within(x.name, x.value, x.least, x.most); err != nil {
				return Served{}, err
			}
		}
		if *row.Queued > *row.Scheduled || *row.Scheduled > *row.First || *row.First > *row.Last {
			return Served{}, errors.New("queued_ts, scheduled_ts, first_token_ts and last_token_ts do not follow each other")
		}
		return Served{
			ID: row.ID, PromptTokens: *row.Prompt, OutputTokens: *row.Output, Arrival: *row.Arrival,
			Queued: feature.Seconds(*row.Queued), Scheduled: feature.Seconds(*row.Scheduled),
			FirstToken: feature.Seconds(*row.First), LastToken: feature.Seconds(*row.Last),
		}, nil
	})
}

// Engine is what the description beside LLMServingSim's requests says of the
// engine. 0 is not told.
type Engine struct {
	LLM              string
	Device           string
	Version          string // of vLLM
	TensorParallel   int
	DataParallel     int
	MaxNumSeqs       int // of each data-parallel rank
	MaxBatchedTokens int // of each data-parallel rank
	BlockTokens      int
	KVCapacityTokens int
}

// ServingSimEngine reads that description, a JSON object of at most 1 MiB.
func ServingSimEngine(r io.Reader) (Engine, error) {
	var meta struct {
		Model   string `json:"model"`
		Version string `json:"vllm_version"`
		Engine  struct {
			TensorParallel   int `json:"tensor_parallel_size"`
			DataParallel     int `json:"data_parallel_size"`
			MaxNumSeqs       int `json:"max_num_seqs"`
			MaxBatchedTokens int `json:"max_num_batched_tokens"`
		} `json:"engine_kwargs"`
		Cache struct {
			BlockTokens int `json:"block_size"`
			Tokens      int `json:"num_kv_tokens"`
		} `json:"kv_cache"`
		Hardware struct {
			Device string `json:"device_name"`
		} `json:"hardware"`
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxLine+1))
	if err != nil {
		return Engine{}, fmt.Errorf("read engine description: %w", err)
	}
	if len(text) > MaxLine {
		return Engine{}, fmt.Errorf("engine description is longer than %d bytes", MaxLine)
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return Engine{}, fmt.Errorf("engine description: %w", err)
	}
	e := Engine{
		LLM: meta.Model, Device: meta.Hardware.Device, Version: meta.Version,
		TensorParallel: meta.Engine.TensorParallel, DataParallel: meta.Engine.DataParallel,
		MaxNumSeqs: meta.Engine.MaxNumSeqs, MaxBatchedTokens: meta.Engine.MaxBatchedTokens,
		BlockTokens: meta.Cache.BlockTokens, KVCapacityTokens: meta.Cache.Tokens,
	}
	for _, x := range []struct {
		name  string
		value int
	}{
		{"tensor_parallel_size", e.TensorParallel}, {"data_parallel_size", e.DataParallel}, {"max_num_seqs", e.MaxNumSeqs},
		{"max_num_batched_tokens", e.MaxBatchedTokens}, {"block_size", e.BlockTokens}, {"num_kv_tokens", e.KVCapacityTokens},
	} {
		if x.value < 0 || x.value > 1<<40 {
			return Engine{}, fmt.Errorf("engine description: %s is %d", x.name, x.value)
		}
	}
	return e, nil
}

// Tick is one second of an engine.
type Tick struct {
	At        feature.Seconds // since the run began
	Prompt    float64         // prompt tokens/s
	Generated float64         // generated tokens/s
	Running   float64
	Waiting   float64
	KVUsed    float64 // share of the KV cache, 0 to 1
}

// ServingSimTicks reads the series beside LLMServingSim's requests: CSV with a
// header.
func ServingSimTicks(r io.Reader) iter.Seq2[Tick, error] {
	t := &table{wanted: []string{"t", "prompt_throughput", "gen_throughput", "running", "waiting", "kv_cache_pct"}}
	return read(r, func(line []byte) (Tick, error) {
		if err := t.next(line); err != nil {
			return Tick{}, err
		}
		tick := Tick{
			At:        feature.Seconds(t.number("t", 0, 1e9)),
			Prompt:    t.number("prompt_throughput", 0, 1e9),
			Generated: t.number("gen_throughput", 0, 1e9),
			Running:   t.number("running", 0, maxTokens),
			Waiting:   t.number("waiting", 0, maxTokens),
			KVUsed:    t.number("kv_cache_pct", 0, 100) / 100,
		}
		if t.err != nil {
			return Tick{}, t.err
		}
		return tick, nil
	})
}
