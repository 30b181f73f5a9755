package evaluate

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Proportion is a share with its 99 % interval.
type Proportion struct {
	Share feature.Number `json:"share"`
	Low   feature.Number `json:"low"`
	High  feature.Number `json:"high"`
	Of    int64          `json:"of"` // how many were counted
}

// z99 is the 99.5 % quantile of the normal distribution.
const z99 = 2.5758293035489004

// Wilson is the share k of n with its 99 % interval (Wilson 1927), which holds
// also near 0 and 1 and for few rows. It takes them to be independent: rows of
// one busy minute are less than they look. All is unknown of 0 rows.
func Wilson(k, n int64) Proportion {
	if n == 0 {
		return Proportion{Share: feature.Number(feature.Unknown), Low: feature.Number(feature.Unknown), High: feature.Number(feature.Unknown)}
	}
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z99*z99/(2*m)) / (1 + z99*z99/m)
	half := z99 / (1 + z99*z99/m) * math.Sqrt(p*(1-p)/m+z99*z99/(4*m*m))
	return Proportion{Share: feature.Number(p), Low: feature.Number(min(p, max(0, middle-half))), High: feature.Number(max(p, min(1, middle+half))), Of: n}
}
