package experiment

import (
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// choices is what the coin gave each request, in order of time.
type choices struct {
	rows          []row
	second, coins []int32 // how many requests before each one the second arm got, and the coin was tossed for
	share         float64 // of the second arm, as it came
}

func newChoices(rows []row) *choices {
	c := &choices{rows: rows, second: make([]int32, len(rows)+1), coins: make([]int32, len(rows)+1)}
	for i := range rows {
		c.second[i+1], c.coins[i+1] = c.second[i], c.coins[i]
		if rows[i].arm >= 0 {
			c.coins[i+1]++
			c.second[i+1] += int32(rows[i].arm)
		}
	}
	c.share = float64(c.second[len(rows)]) / float64(c.coins[len(rows)])
	return c
}

// naive is the difference of the arms' means as the mean of one number a request,
// its linearisation, and the means.
func (c *choices) naive(y []float64) (pulls []float64, first, second feature.Number) {
	var arms [2]mean
	for i, v := range y {
		if arm := c.rows[i].arm; arm >= 0 {
			arms[arm].add(v)
		}
	}
	means := [2]float64{arms[0].value(), arms[1].value()}
	all := arms[0].n + arms[1].n
	pulls = make([]float64, len(y))
	for i, v := range y {
		arm := c.rows[i].arm
		if arm < 0 || v != v {
			pulls[i] = feature.Unknown
			continue
		}
		pulls[i] = means[1] - means[0] + (2*float64(arm)-1)*(v-means[arm])*all/arms[arm].n
	}
	return pulls, feature.Number(means[0]), feature.Number(means[1])
}

// tilt is, for each request, by how much more the second arm got of the requests
// that came within a horizon before it, itself among them, than its share: the sum
// of (z - p) / (p (1 - p)) over them.
type tilt []float64

func (c *choices) within(horizon time.Duration) tilt {
	out := make(tilt, len(c.rows))
	from := 0
	for i := range c.rows {
		for c.rows[i].at-c.rows[from].at > horizon || horizon == 0 && from < i {
			from++
		}
		second, coins := float64(c.second[i+1]-c.second[from]), float64(c.coins[i+1]-c.coins[from])
		out[i] = (second - c.share*coins) / (c.share * (1 - c.share))
	}
	return out
}

// pulls is a number a request whose mean is the difference in Q: the request's own
// cost, as far as traffic does not explain it, times the tilt of the choices that
// may have had to do with it. Summed the other way round that is each choice's
// weight times what came of it within the horizon, which is its Q; both arms' mean
// Q, one less the other, is how fast the mean cost of all requests changes with the
// share (Farias et al. 2022).
func (t tilt) pulls(costs []float64) []float64 {
	out := make([]float64, len(t))
	for i := range t {
		out[i] = t[i] * costs[i]
	}
	return out
}

// traffic is what of a request's latency comes of traffic alone, whatever the coin
// said: columns of numbers that are orthogonal and of mean 0. What of a cost lies in
// their span is taken out: that changes nothing on average, since no coin has to do
// with it, and most of the noise is there.
type traffic struct{ columns [][]float64 }

// traffic makes them of a request's own lengths and of how much came within the
// horizon before it, and within parts of it.
func (a *Analysis) traffic(horizon time.Duration) *traffic {
	rows, t := a.rows, &traffic{}
	prompt := column(rows, func(r *row) float64 { return orZero(r.prompt) })
	output := column(rows, func(r *row) float64 { return orZero(r.output) })
	t.add(prompt)
	t.add(output)
	one := column(rows, func(*row) float64 { return 1 })
	for _, h := range []time.Duration{horizon / 16, horizon / 4, horizon} {
		for _, of := range [][]float64{one, prompt, output} {
			t.add(before(rows, h, of))
		}
	}
	return t
}

func orZero(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}

// before is the sum of a number over the requests that came before each one,
// within a horizon.
func before(rows []row, horizon time.Duration, of []float64) []float64 {
	out := make([]float64, len(rows))
	sums := make([]float64, len(rows)+1)
	for i, v := range of {
		sums[i+1] = sums[i] + v
	}
	from := 0
	for i := range rows {
		for rows[i].at-rows[from].at > horizon {
			from++
		}
		out[i] = sums[i] - sums[from]
	}
	return out
}

// leastNew is the least share of a column that the others must not explain: below
// it, what is left is rounding.
const leastNew = 1e-6

// add takes a column in, less what it shares with those that are there.
func (t *traffic) add(x []float64) {
	x = slices.Clone(x)
	var sum float64
	for _, v := range x {
		sum += v
	}
	shift := sum / float64(len(x))
	size := 0.0
	for i := range x {
		x[i] -= shift
		size += x[i] * x[i]
	}
	for range 2 { // once more, for what rounding left
		for _, c := range t.columns {
			along := dot(x, c)
			for i := range x {
				x[i] -= along * c[i]
			}
		}
	}
	left := dot(x, x)
	if !(left > leastNew*size) {
		return
	}
	left = math.Sqrt(left)
	for i := range x {
		x[i] /= left
	}
	t.columns = append(t.columns, x)
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// residuals is what of costs traffic does not explain, NaN where a cost is. Costs
// that are not known are taken to be the mean.
func (t *traffic) residuals(costs []float64) []float64 {
	var m mean
	for _, v := range costs {
		m.add(v)
	}
	out := make([]float64, len(costs))
	for i, v := range costs {
		if out[i] = v - m.value(); v != v {
			out[i] = 0
		}
	}
	for _, c := range t.columns {
		along := dot(out, c)
		for i := range out {
			out[i] -= along * c[i]
		}
	}
	for i, v := range costs {
		if v != v {
			out[i] = feature.Unknown
		}
	}
	return out
}
