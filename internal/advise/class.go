package advise

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Class is what binds a fleet under its traffic.
type Class struct {
	// Share of the time in which each resource binds, in the order of Resource.
	Share Shares `json:"share_of_time"`

	// Means over time; see Moment.
	Prefill feature.Number `json:"prefill"`
	Decode  feature.Number `json:"decode"`
	Slots   feature.Number `json:"slots"`
	KV      feature.Number `json:"kv"`

	// Least, Middle and Most are prefill's part of the work, prefill and decoding
	// together: the 10th, 50th and 90th percentile over the work's time.
	Least  feature.Number `json:"prefill_part_p10"`
	Middle feature.Number `json:"prefill_part_p50"`
	Most   feature.Number `json:"prefill_part_p90"`

	// Wait is how long a request waits on average for prefills that others have
	// under way, where nobody steers clear of them: utilisation times half of the
	// mean square of prefill times over their mean, the residual of renewal
	// theory. TTFT is the median.
	Wait feature.Seconds `json:"prefill_wait_seconds"`
	TTFT feature.Seconds `json:"ttft_p50_seconds"`

	Shifts bool `json:"shifts"` // prefill's part changes much with time
	Blocks bool `json:"blocks"` // long prompts hold short requests up

	// Matched is the configuration that this traffic wants, of the matched ones.
	Matched string `json:"matched"`
	Says    string `json:"says"` // one sentence
}

// Shares are shares of a whole, by Resource.
type Shares [resources]float64

// MarshalJSON names the resources.
func (s Shares) MarshalJSON() ([]byte, error) {
	named := make(map[string]float64, len(s))
	for r, v := range s {
		named[Resource(r).String()] = v
	}
	return json.Marshal(named)
}

const (
	// shiftFrom is by how much prefill's part of the work has to change between
	// the 10th and the 90th percentile of time for the traffic to be of several
	// kinds. On development seeds steady workloads changed by 0.03 to 0.2, and the
	// shifting one by 0.5 to 0.7.
	shiftFrom = 0.4
	// blockFrom is the wait for others' prefill, as a multiple of the median
	// TTFT, from which on long prompts and short requests get into each other's
	// way: the median request would wait for others for longer than for itself. On
	// development seeds it was 1.9 to 4.3 of mixed traffic, and up to 0.4 of steady
	// kinds that were warm.
	blockFrom = 1.0
)

// Several says that the traffic is of several kinds.
func (c *Class) Several() bool { return c.Shifts || c.Blocks }

// class judges what was used from a time on; what was before is warm-up. An error
// says that there is nothing to judge.
func (u *use) class(moments []Moment, from time.Duration) (Class, error) {
	var ttft []float64
	var works, squares float64
	for i := range u.parts {
		if p := &u.parts[i]; p.at >= from {
			ttft = append(ttft, (p.first - p.at).Seconds())
			works, squares = works+p.prefill, squares+p.prefill*p.prefill
		}
	}
	var c Class
	var means [4]mean
	var work []weighed
	judged := 0
	for i := range moments {
		m := &moments[i]
		if m.At < from {
			continue
		}
		judged++
		c.Share[m.Binds]++
		for k, v := range [4]float64{m.Prefill, m.Decode, m.Slots, m.KV} {
			means[k].add(v)
		}
		if all := m.Prefill + m.Decode; all > 0 {
			work = append(work, weighed{m.Prefill / all, all})
		}
	}
	if len(ttft) == 0 || len(work) == 0 {
		return c, fmt.Errorf("no request was served later than %v after the first: there is nothing to judge", from)
	}
	for i := range c.Share {
		c.Share[i] /= float64(judged)
	}
	c.Prefill, c.Decode = feature.Number(means[0].of()), feature.Number(means[1].of())
	c.Slots, c.KV = feature.Number(means[2].of()), feature.Number(means[3].of())
	slices.SortFunc(work, func(a, b weighed) int { return cmp.Compare(a.value, b.value) })
	c.Least, c.Middle, c.Most = quantile(work, 0.1), quantile(work, 0.5), quantile(work, 0.9)
	slices.Sort(ttft)
	c.TTFT = feature.Seconds(ttft[len(ttft)/2])
	if works > 0 {
		c.Wait = feature.Seconds(float64(c.Prefill) * squares / works / 2)
	}
	c.Shifts = c.Most-c.Least >= shiftFrom
	c.Blocks = c.Wait >= blockFrom*c.TTFT
	c.Matched = c.chief().matched()
	c.Says = c.says()
	return c, nil
}

// chief is what binds most of the time, of what binds at all.
func (c *Class) chief() Resource {
	best := Nothing
	for r := Prefill; r < resources; r++ {
		if c.Share[r] > 0 && (best == Nothing || c.Share[r] > c.Share[best]) {
			best = r
		}
	}
	switch {
	case best != Nothing:
		return best
	case c.Prefill > c.Decode:
		return Prefill
	}
	return Decode
}

func (c *Class) says() string {
	chief := c.chief()
	text := fmt.Sprintf("%s binds %.0f %% of the time", chief.says(), 100*c.Share[chief])
	if c.Share[chief] == 0 {
		text = fmt.Sprintf("nothing binds; what is used most is %s", chief.says())
	}
	switch {
	case c.Shifts && c.Blocks:
		text += fmt.Sprintf("; prefill's part of the work goes from %.0f %% to %.0f %%, and long prompts hold short requests up", 100*c.Least, 100*c.Most)
	case c.Shifts:
		text += fmt.Sprintf("; prefill's part of the work goes from %.0f %% to %.0f %%", 100*c.Least, 100*c.Most)
	case c.Blocks:
		text += fmt.Sprintf("; long prompts hold short requests up: %.2g s of others' prefill before each, at a median TTFT of %.2g s", c.Wait, c.TTFT)
	}
	return text
}

// weighed is a value that counts for so much.
type weighed struct{ value, weight float64 }

// quantile is the value below which a share of the weight lies, of sorted values.
func quantile(sorted []weighed, share float64) feature.Number {
	all := 0.0
	for _, w := range sorted {
		all += w.weight
	}
	sum := 0.0
	for _, w := range sorted {
		if sum += w.weight; sum >= share*all {
			return feature.Number(w.value)
		}
	}
	return feature.Number(math.NaN())
}
