package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// MooncakeBlock is the number of tokens that one of Mooncake's hash_ids stands
// for (the trace's own documentation).
const MooncakeBlock = 512

// Mooncake reads the Mooncake traces: JSON lines with timestamp (milliseconds),
// input_length, output_length and hash_ids, of which the last may be left out.
// It yields as Azure does.
func Mooncake(r io.Reader) iter.Seq2[Item, error] { return read(r, mooncake) }

func mooncake(line []byte) (Item, error) {
	var row struct {
		Timestamp *float64 `json:"timestamp"`
		Input     *int     `json:"input_length"`
		Output    *int     `json:"output_length"`
		Blocks    []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return Item{}, err
	}
	switch {
	case row.Timestamp == nil:
		return Item{}, errors.New("timestamp is missing")
	case row.Input == nil:
		return Item{}, errors.New("input_length is missing")
	case row.Output == nil:
		return Item{}, errors.New("output_length is missing")
	}
	const year = 365 * 24 * 3600 * 1000
	if *row.Timestamp < 0 || *row.Timestamp > 100*year {
		return Item{}, fmt.Errorf("timestamp %g is not between 0 and 100 years, in milliseconds", *row.Timestamp)
	}
	if err := inRange("input_length", *row.Input, 1); err != nil {
		return Item{}, err
	}
	if err := inRange("output_length", *row.Output, 0); err != nil {
		return Item{}, err
	}
	item := Item{
		At:           time.Duration(*row.Timestamp * float64(time.Millisecond)),
		PromptTokens: *row.Input, OutputTokens: *row.Output,
	}
	if len(row.Blocks) > 0 {
		want := (*row.Input + MooncakeBlock - 1) / MooncakeBlock
		if len(row.Blocks) != want {
			return Item{}, fmt.Errorf("%d hash_ids for an input_length of %d, want %d", len(row.Blocks), *row.Input, want)
		}
		item.Blocks, item.BlockTokens = row.Blocks, MooncakeBlock
	}
	return item, nil
}
