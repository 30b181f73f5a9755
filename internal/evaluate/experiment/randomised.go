package experiment

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// exactPairs is up to how many pairs all their orders are gone through.
const exactPairs = 16

// drawnOrders is how many are drawn of more pairs.
const drawnOrders = 9999

// sameSum is by how little sums may differ that are the same but for rounding.
const sameSum = 1e-9

// randomised is the share of all orders of the pairs in which the mean difference
// would have been as great as it is, either way, had both arms been the same: an
// order turned round turns the sign of its pair's difference (Fisher 1935). Of
// many pairs orders are drawn, and the one that came counts among them.
func randomised(differences []float64, seed uint64) float64 {
	var sum, size float64
	for _, d := range differences {
		sum += d
		size += math.Abs(d)
	}
	least := math.Abs(sum) - sameSum*size
	as := 0
	if n := len(differences); n <= exactPairs {
		signs := make([]float64, n)
		s := 0.0
		for i, d := range differences {
			signs[i] = 1
			s += d
		}
		for order := 1; ; order++ { // in Gray's order one sign changes at a time
			if math.Abs(s) >= least {
				as++
			}
			if order == 1<<n {
				return float64(as) / float64(int(1)<<n)
			}
			i := bits.TrailingZeros(uint(order))
			signs[i] = -signs[i]
			s += 2 * signs[i] * differences[i]
		}
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for range drawnOrders {
		var s float64
		var coins uint64
		for i, d := range differences {
			if i%64 == 0 {
				coins = rng.Uint64()
			}
			if coins&1 == 0 {
				d = -d
			}
			coins >>= 1
			s += d
		}
		if math.Abs(s) >= least {
			as++
		}
	}
	return float64(as+1) / (drawnOrders + 1)
}
