package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/spillway-llm/spillway/internal/feature"
)

// What stands in a row of all candidates of its decision, in two columns: a
// table that people read, and the vectors. Either is empty where the row comes
// without candidates. Of their forecasts the table has the medians that the
// policy used; a reader leaves the rest unknown.
type (
	candidateTable   []feature.Candidate
	candidateVectors []feature.Candidate
)

// tableText is the JSON of a candidateTable: an array for each of its columns.
type tableText struct {
	Endpoint    []string `json:"endpoint"`
	Class       []string `json:"class"`
	Probability numbers  `json:"probability"`
	Cost        numbers  `json:"cost"`
	TTFT        numbers  `json:"ttft_p50"`
	TPOT        numbers  `json:"tpot_p50"`
}

func (c candidateTable) text() string {
	if len(c) == 0 {
		return ""
	}
	var t tableText
	for i := range c {
		t.Endpoint, t.Class = append(t.Endpoint, c[i].Endpoint), append(t.Class, c[i].Class)
		t.Probability, t.Cost = append(t.Probability, c[i].Probability), append(t.Cost, c[i].Cost)
		t.TTFT, t.TPOT = append(t.TTFT, float64(c[i].Corrected.TTFT.P50)), append(t.TPOT, float64(c[i].Corrected.TPOT.P50))
	}
	text, err := json.Marshal(&t)
	if err != nil {
		panic(err) // texts and numbers alone
	}
	return string(text)
}

var errCandidates = errors.New("its arrays, or the vectors beside it, are of different lengths")

func (c *candidateTable) setText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	var t tableText
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("no table of candidates: %w", err)
	}
	n := len(t.Endpoint)
	if len(t.Class) != n || len(t.Probability) != n || len(t.Cost) != n || len(t.TTFT) != n || len(t.TPOT) != n || len(*c) > 0 && len(*c) != n {
		return errCandidates
	}
	all := grown(*c, n)
	for i := range all {
		all[i].Endpoint, all[i].Class = t.Endpoint[i], t.Class[i]
		all[i].Probability, all[i].Cost = t.Probability[i], t.Cost[i]
		all[i].Corrected.TTFT.P50, all[i].Corrected.TPOT.P50 = feature.Seconds(t.TTFT[i]), feature.Seconds(t.TPOT[i])
	}
	*c = all
	return nil
}

func (c candidateVectors) bytes() []byte {
	out := make([]byte, 0, len(c)*feature.VectorSize)
	for i := range c {
		out = c[i].Vector.Append(out)
	}
	return out
}

func (c *candidateVectors) setBytes(b []byte) (err error) {
	if len(b) == 0 {
		return nil
	}
	n := len(b) / feature.VectorSize
	if len(b)%feature.VectorSize != 0 || len(*c) > 0 && len(*c) != n {
		return errCandidates
	}
	all := grown(*c, n)
	for i := range all {
		if all[i].Vector, err = feature.DecodeVector(b[i*feature.VectorSize:][:feature.VectorSize]); err != nil {
			return err
		}
	}
	*c = all
	return nil
}

// grown is what was read of n candidates so far, or n of which nothing is known.
func grown(c []feature.Candidate, n int) []feature.Candidate {
	if len(c) > 0 || n == 0 {
		return c
	}
	none := feature.Candidate{Forecast: feature.NoForecast, Corrected: feature.NoForecast, Cost: feature.Unknown, Probability: feature.Unknown}
	for i := range none.Vector {
		none.Vector[i] = float32(feature.Unknown)
	}
	c = make([]feature.Candidate, n)
	for i := range c {
		c[i] = none
	}
	return c
}

// numbers are written so that reading gives the same bits: unknown ones as
// null, infinite ones as text.
type numbers []float64

// MarshalJSON writes an array.
func (n numbers) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, v := range n {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case v != v:
			out = append(out, "null"...)
		case math.IsInf(v, 0):
			out = append(strconv.AppendFloat(append(out, '"'), v, 'g', -1, 64), '"')
		default:
			out = strconv.AppendFloat(out, v, 'g', -1, 64)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote. The text is JSON.
func (n *numbers) UnmarshalJSON(text []byte) error {
	*n = nil
	inside, isArray := bytes.CutPrefix(text, []byte("["))
	if !isArray {
		return errors.New("want arrays")
	}
	inside = bytes.TrimSpace(inside[:len(inside)-1])
	for more := len(inside) > 0; more; {
		var one []byte
		one, inside, more = bytes.Cut(inside, []byte(","))
		v, err := numberOf(string(bytes.TrimSpace(one)))
		if err != nil {
			return err
		}
		*n = append(*n, v)
	}
	return nil
}

// numberOf reads one element.
func numberOf(text string) (float64, error) {
	switch text {
	case "null":
		return feature.Unknown, nil
	case `"+Inf"`:
		return math.Inf(1), nil
	case `"-Inf"`:
		return math.Inf(-1), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v {
		return 0, fmt.Errorf("%q is no number", clipped(text))
	}
	return v, nil
}
