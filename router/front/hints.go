package front

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

// hints are the objectives and the priority that a client asked for, by headers
// or in the object `spillway` of its body. What it did not say is nil, and never
// 0. Headers go before the body, one by one: what stands between client and
// router may overrule the client.
type hints struct {
	TTFT     *float64 // milliseconds
	TPOT     *float64 // milliseconds
	Priority *int32
}

// longestHints is the most bytes that the hints of a body may have.
const longestHints = 1024

// tell writes into q what is known.
func (h *hints) tell(q *route.Query) {
	if h.TTFT != nil {
		q.SLOTTFT = feature.Seconds(*h.TTFT / 1000)
	}
	if h.TPOT != nil {
		q.SLOTPOT = feature.Seconds(*h.TPOT / 1000)
	}
	if h.Priority != nil {
		q.Priority = int(*h.Priority)
	}
}

func (h *hints) readHeaders(header http.Header) error {
	for _, slo := range []struct {
		name string
		into **float64
	}{
		{"X-Llm-D-Slo-Ttft-Ms", &h.TTFT}, {"X-Llm-D-Slo-Tpot-Ms", &h.TPOT}, // llm-d's names; ours overrule them
		{HeaderSLOTTFT, &h.TTFT}, {HeaderSLOTPOT, &h.TPOT},
	} {
		text, err := one(header, slo.name)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || !objective(ms) {
			return BadRequest("bad_header", "header %s: %q is not a positive number of milliseconds", strings.ToLower(slo.name), Clip(text))
		}
		*slo.into = &ms
	}
	text, err := one(header, HeaderPriority)
	if err != nil || text == "" {
		return err
	}
	priority, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return BadRequest("bad_header", "header %s: %q is not a whole number", strings.ToLower(HeaderPriority), Clip(text))
	}
	small := int32(priority)
	h.Priority = &small
	return nil
}

// readBody takes from the hints of a body, as they stand there, what no header
// said. A key that is not known is a mistake: an objective that nobody reads
// would be missed in silence.
func (h *hints) readBody(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if len(text) > longestHints {
		return BadRequest("bad_request", "request body, in `spillway`: has %d bytes, want at most %d", len(text), longestHints)
	}
	var said map[string]json.RawMessage // the keys as they are: json would take them in capitals too
	if err := json.Unmarshal(text, &said); err != nil {
		return BadRequest("bad_request", "request body, in `spillway`: must be an object")
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		number := new(float64)
		err := json.Unmarshal(said[key], &number) // null leaves none
		switch key {
		case "slo_ttft_ms", "slo_tpot_ms":
			if err != nil || number != nil && !objective(*number) {
				return BadRequest("bad_request", "request body, in `spillway`: `%s` must be a positive number of milliseconds", key)
			}
			if into := h.slo(key); *into == nil {
				*into = number
			}
		case "priority":
			if err != nil || number != nil && !whole(*number) {
				return BadRequest("bad_request", "request body, in `spillway`: `priority` must be a whole number")
			}
			if h.Priority == nil && number != nil {
				priority := int32(*number)
				h.Priority = &priority
			}
		default:
			return BadRequest("bad_request", "request body, in `spillway`: unknown key %q; known are slo_ttft_ms, slo_tpot_ms and priority", Clip(key))
		}
	}
	return nil
}

// slo is the objective that goes by key in a body.
func (h *hints) slo(key string) **float64 {
	if key == "slo_ttft_ms" {
		return &h.TTFT
	}
	return &h.TPOT
}

// whole reports whether x is a whole number that a priority may be.
func whole(x float64) bool { return x == math.Trunc(x) && math.Abs(x) <= math.MaxInt32 }

// objective reports whether ms is one: less than a nanosecond is nothing, and by how
// much it is missed no number.
func objective(ms float64) bool { return ms >= 1e-6 && !math.IsInf(ms, 0) }

// one returns the value of a header that may be given once, "" when it is not.
func one(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		if text := strings.TrimSpace(values[0]); text != "" {
			return text, nil
		}
		return "", BadRequest("bad_header", "header %s is empty: give a value or leave it out", strings.ToLower(name))
	}
	return "", BadRequest("bad_header", "header %s is given %d times: give it once", strings.ToLower(name), len(values))
}

// Clip shortens what is quoted back to a client.
func Clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "..."
	}
	return s
}
