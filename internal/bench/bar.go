package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// A Relation is how a value must stand to its bound.
type Relation string

// The relations of bars.
const (
	AtMost  Relation = "<="
	AtLeast Relation = ">="
)

// Bar is one number that was promised. A value that is not a number is short,
// whatever the bound.
type Bar struct {
	Name     string // lower case with underscores, unique in a report
	Value    float64
	Relation Relation
	Bound    float64
}

// Within is the two bars of a value that has to lie in a range: NAME_min and
// NAME_max.
func Within(name string, value, least, most float64) []Bar {
	return []Bar{{name + "_min", value, AtLeast, least}, {name + "_max", value, AtMost, most}}
}

// Holds says whether the value reaches the bound.
func (b Bar) Holds() bool {
	switch b.Relation {
	case AtMost:
		return b.Value <= b.Bound
	case AtLeast:
		return b.Value >= b.Bound
	}
	return false
}

func (b Bar) verdict() string {
	if b.Holds() {
		return "ok"
	}
	return "short"
}

// String is the bar's line: "bar NAME VALUE RELATION BOUND ok|short".
func (b Bar) String() string {
	return fmt.Sprintf("bar %s %s %s %s %s", b.Name, digits(b.Value), b.Relation, digits(b.Bound), b.verdict())
}

// digits writes four significant digits, so that a run on another machine differs
// only where it differs.
func digits(v float64) string {
	if math.Abs(v) >= 1000 && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// MarshalJSON writes a value that is not a number as null.
func (b Bar) MarshalJSON() ([]byte, error) {
	var value *float64
	if !math.IsNaN(b.Value) && !math.IsInf(b.Value, 0) {
		value = &b.Value
	}
	return json.Marshal(struct {
		Name     string   `json:"name"`
		Value    *float64 `json:"value"`
		Relation Relation `json:"relation"`
		Bound    float64  `json:"bound"`
		Verdict  string   `json:"verdict"`
	}{b.Name, value, b.Relation, b.Bound, b.verdict()})
}
