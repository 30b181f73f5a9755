package prefix_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/router/prefix"
)

var start = time.Unix(1_700_000_000, 0)

// A block of 4 bytes at 0.25 tokens a byte is one token, so that capacities
// in these tests read as blocks.
var tiny = prefix.Config{BlockBytes: 4, TokensPerByte: 0.25, CapacityTokens: 1000}

func match(x *prefix.Index, chain []uint64) []int32 {
	out := make([]int32, x.Slots())
	x.Match(chain, out)
	return out
}

func TestMatchIsContiguousPerEndpoint(t *testing.T) {
	x := prefix.New(tiny)
	a, b, c := x.Slot("a"), x.Slot("b"), x.Slot("c")
	x.Insert(a, []uint64{1, 2, 3, 4}, start)
	x.Insert(b, []uint64{1, 2}, start)
	for _, test := range []struct {
		chain      []uint64
		at, bt, ct int32
	}{
		{[]uint64{1, 2, 3, 4, 5}, 4, 2, 0},
		{[]uint64{1, 2, 3}, 3, 2, 0},
		{[]uint64{1, 9, 3}, 1, 1, 0},
		{[]uint64{9, 2, 3}, 0, 0, 0},
		{nil, 0, 0, 0},
	} {
		got := match(x, test.chain)
		if got[a] != test.at || got[b] != test.bt || got[c] != test.ct {
			t.Errorf("chain %v: a %d, b %d, c %d, want %d, %d, %d", test.chain, got[a], got[b], got[c], test.at, test.bt, test.ct)
		}
	}
}

func TestTailIsEvictedFirst(t *testing.T) {
	x := prefix.New(tiny)
	a := x.Slot("a")
	x.SetCapacity(a, 5, 0)
	x.Insert(a, []uint64{1, 2, 3}, start)
	x.Insert(a, []uint64{11, 12, 13}, start)
	if got := match(x, []uint64{1, 2, 3})[a]; got != 2 {
		t.Errorf("%d blocks of the older prompt are left, want 2", got)
	}
	if got := match(x, []uint64{11, 12, 13})[a]; got != 3 {
		t.Errorf("%d blocks of the newer prompt are left, want 3", got)
	}
	x.Insert(a, []uint64{21, 22, 23, 24, 25, 26, 27}, start)
	if got := match(x, []uint64{21, 22, 23, 24, 25, 26, 27})[a]; got != 5 {
		t.Errorf("%d blocks of a prompt larger than the cache are held, want 5", got)
	}
	x.SetCapacity(a, 2, 0)
	if got := match(x, []uint64{21, 22, 23})[a]; got != 2 || x.Len() != 2 {
		t.Errorf("%d blocks, %d entries after the cache shrank, want 2 and 2", got, x.Len())
	}
}

func TestCapacityIsInTokens(t *testing.T) {
	x := prefix.New(prefix.Config{BlockBytes: 256})
	a := x.Slot("a")
	x.SetCapacity(a, 640, 0.5) // 128 tokens a block
	x.Insert(a, []uint64{1, 2, 3, 4, 5, 6, 7}, start)
	if x.Len() != 5 {
		t.Errorf("%d blocks of 128 tokens in 640, want 5", x.Len())
	}
	if hot := x.Hot(a, start, time.Minute); hot != 640 {
		t.Errorf("hot %v tokens, want 640", hot)
	}
}

func TestSlotsAreUsedAgain(t *testing.T) {
	x := prefix.New(tiny)
	a, b := x.Slot("a"), x.Slot("b")
	x.Insert(a, []uint64{1, 2}, start)
	x.Insert(b, []uint64{1}, start)
	x.Remove("a")
	x.Remove("never seen")
	if c := x.Slot("c"); c != a {
		t.Errorf("slot %d for c, want the freed %d", c, a)
	}
	if got := match(x, []uint64{1, 2}); got[a] != 0 || got[b] != 1 {
		t.Errorf("matches %v: the new endpoint must know nothing", got)
	}
}

func TestHotForgetsOldUse(t *testing.T) {
	x := prefix.New(tiny)
	a := x.Slot("a")
	x.Insert(a, []uint64{1, 2, 3, 4}, start)
	x.Insert(a, []uint64{1, 2}, start.Add(50*time.Second))
	for _, step := range []struct {
		at   time.Duration
		want float64
	}{{50 * time.Second, 4}, {59 * time.Second, 4}, {60 * time.Second, 2}, {109 * time.Second, 2}, {110 * time.Second, 0}, {time.Hour, 0}} {
		if got := x.Hot(a, start.Add(step.at), time.Minute); got != step.want {
			t.Errorf("after %v: %v hot tokens, want %v", step.at, got, step.want)
		}
	}
}

// twin keeps a list per endpoint, most recently used first.
type twin struct{ endpoints map[string]*twinCache }

type twinCache struct {
	capacity int
	blocks   []twinBlock
}

type twinBlock struct {
	hash    uint64
	touched time.Time
}

func (c *twinCache) insert(chain []uint64, now time.Time) {
	chain = chain[:min(len(chain), c.capacity)]
	for _, hash := range slices.Backward(chain) {
		c.blocks = slices.DeleteFunc(c.blocks, func(b twinBlock) bool { return b.hash == hash })
		c.blocks = slices.Insert(c.blocks, 0, twinBlock{hash, now})
	}
	c.trim()
}

func (c *twinCache) restore(blocks []prefix.Held, now time.Time) (added int) {
	for _, b := range blocks {
		if len(c.blocks) < c.capacity && !slices.ContainsFunc(c.blocks, func(have twinBlock) bool { return have.hash == b.Hash }) {
			c.blocks = append(c.blocks, twinBlock{b.Hash, now.Add(-b.Age)})
			added++
		}
	}
	return added
}

func (c *twinCache) held(now time.Time) (all []prefix.Held) {
	for _, b := range c.blocks {
		all = append(all, prefix.Held{Hash: b.hash, Age: now.Sub(b.touched)})
	}
	return all
}

func (c *twinCache) trim() { c.blocks = c.blocks[:min(len(c.blocks), c.capacity)] }

func (c *twinCache) match(chain []uint64) (n int32) {
	for _, hash := range chain {
		if !slices.ContainsFunc(c.blocks, func(b twinBlock) bool { return b.hash == hash }) {
			break
		}
		n++
	}
	return n
}

func TestAgainstTwin(t *testing.T) {
	// 70 endpoints need two words a set; a few of them are used much.
	names := make([]string, 70)
	for i := range names {
		names[i] = fmt.Sprint("e", i)
	}
	endpoint := rapid.OneOf(rapid.SampledFrom(names[:4]), rapid.SampledFrom(names))
	chains := rapid.Custom(func(t *rapid.T) []uint64 {
		var chain []uint64
		hash := uint64(0)
		for _, turn := range rapid.SliceOfN(rapid.Uint64Range(1, 3), 0, 8).Draw(t, "turns") {
			hash = hash*4 + turn
			chain = append(chain, hash)
		}
		return chain
	})
	rapid.Check(t, func(t *rapid.T) {
		x, w := prefix.New(tiny), twin{map[string]*twinCache{}}
		now := start
		if rapid.Bool().Draw(t, "wide") {
			for _, e := range names {
				x.Slot(e)
				w.endpoints[e] = &twinCache{capacity: 1000}
			}
		}
		cache := func(e string) (int, *twinCache) {
			if w.endpoints[e] == nil {
				w.endpoints[e] = &twinCache{capacity: 1000}
			}
			return x.Slot(e), w.endpoints[e]
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				s, c := cache(endpoint.Draw(t, "endpoint"))
				chain := chains.Draw(t, "chain")
				x.Insert(s, chain, now)
				c.insert(chain, now)
			},
			"capacity": func(t *rapid.T) {
				s, c := cache(endpoint.Draw(t, "endpoint"))
				c.capacity = rapid.IntRange(1, 12).Draw(t, "capacity")
				c.trim()
				x.SetCapacity(s, float64(c.capacity), 0)
			},
			"drop": func(t *rapid.T) {
				s, c := cache(endpoint.Draw(t, "endpoint"))
				chain := chains.Draw(t, "chain")
				chain = chain[rapid.IntRange(0, len(chain)).Draw(t, "from"):]
				x.Drop(s, chain)
				c.blocks = slices.DeleteFunc(c.blocks, func(b twinBlock) bool { return slices.Contains(chain, b.hash) })
			},
			"clear": func(t *rapid.T) {
				s, c := cache(endpoint.Draw(t, "endpoint"))
				x.Clear(s)
				c.blocks = nil
			},
			"remove": func(t *rapid.T) {
				e := endpoint.Draw(t, "endpoint")
				x.Remove(e)
				delete(w.endpoints, e)
			},
			"restore": func(t *rapid.T) {
				s, c := cache(endpoint.Draw(t, "endpoint"))
				var blocks []prefix.Held
				for _, hash := range chains.Draw(t, "chain") {
					blocks = append(blocks, prefix.Held{Hash: hash, Age: time.Duration(rapid.IntRange(0, 90).Draw(t, "age")) * time.Second})
				}
				if got, want := x.Restore(s, blocks, now), c.restore(blocks, now); got != want {
					t.Fatalf("%d blocks restored, want %d", got, want)
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				chain := chains.Draw(t, "asked")
				got := match(x, chain)
				held, sum := 0, int32(0)
				for _, n := range got {
					sum += n
				}
				for e, c := range w.endpoints {
					held += len(c.blocks)
					n := c.match(chain)
					sum -= n
					if got[x.Slot(e)] != n {
						t.Fatalf("%s matches %d blocks of %v, want %d", e, got[x.Slot(e)], chain, n)
					}
					hot := 0.0
					for _, b := range c.blocks {
						if b.touched.After(now.Add(-time.Minute)) {
							hot++
						}
					}
					if h := x.Hot(x.Slot(e), now, time.Minute); h != hot {
						t.Fatalf("%s has %v hot tokens, want %v", e, h, hot)
					}
					if got, want := x.Held(x.Slot(e), now, nil), c.held(now); !slices.Equal(got, want) {
						t.Fatalf("%s holds %v, want %v", e, got, want)
					}
				}
				if sum != 0 {
					t.Fatalf("matches on slots of no endpoint: %v", got)
				}
				if x.Len() != held {
					t.Fatalf("%d entries, want %d", x.Len(), held)
				}
			},
		})
	})
}

// filled returns an index over 200 endpoints, each full of prompts that share
// system texts, and one of the prompts.
func filled(blocks int) (*prefix.Index, []uint64, []int) {
	x := prefix.New(prefix.Config{})
	r := rand.New(rand.NewPCG(1, 2))
	system := make([]uint64, blocks/4)
	for i := range system {
		system[i] = r.Uint64()
	}
	slots := make([]int, 200)
	var chain []uint64
	for e := range slots {
		slots[e] = x.Slot(fmt.Sprintf("10.0.0.%d:8000", e))
		for range 8 {
			fresh := slices.Clone(system)
			for len(fresh) < blocks {
				fresh = append(fresh, r.Uint64())
			}
			if chain == nil {
				chain = fresh
			}
			x.Insert(slots[e], fresh, start)
		}
		x.Insert(slots[e], chain[:1+r.IntN(len(chain))], start)
	}
	return x, chain, slots
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	x, chain, slots := filled(64)
	out := make([]int32, x.Slots())
	if n := testing.AllocsPerRun(100, func() { x.Match(chain, out) }); n != 0 {
		t.Errorf("%v allocations a match, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { x.Insert(slots[3], chain[:40], start) }); n != 0 {
		t.Errorf("%v allocations to claim a known prefix, want 0", n)
	}
}

// 128 blocks of 256 bytes are a prompt of about 8,000 tokens.
func BenchmarkMatch8kTokens200Endpoints(b *testing.B) {
	x, chain, _ := filled(128)
	out := make([]int32, x.Slots())
	b.ReportAllocs()
	for b.Loop() {
		x.Match(chain, out)
	}
}

func BenchmarkInsert8kTokens(b *testing.B) {
	x, chain, slots := filled(128)
	r := rand.New(rand.NewPCG(3, 4))
	fresh := slices.Clone(chain)
	b.ReportAllocs()
	for b.Loop() {
		for i := 32; i < len(fresh); i++ {
			fresh[i] = r.Uint64()
		}
		x.Insert(slots[7], fresh, start)
	}
}

// What one index holds of an endpoint another takes over whole, in its order,
// and never at the cost of what that one has seen itself.
func TestRestore(t *testing.T) {
	old := prefix.New(tiny)
	a := old.Slot("a")
	old.Insert(a, []uint64{1, 2, 3}, start)
	old.Insert(a, []uint64{11, 12}, start.Add(30*time.Second))
	now := start.Add(40 * time.Second)
	held := old.Held(a, now, nil)

	young := prefix.New(tiny)
	b := young.Slot("a")
	if added := young.Restore(b, held, now); added != 5 || !slices.Equal(young.Held(b, now, nil), held) {
		t.Errorf("%d added: %v, want %v", added, young.Held(b, now, nil), held)
	}
	if got := young.Hot(b, now, 20*time.Second); got != 2 {
		t.Errorf("%v tokens are hot, want 2", got)
	}

	busy := prefix.New(tiny)
	c := busy.Slot("a")
	busy.SetCapacity(c, 4, 0)
	busy.Insert(c, []uint64{1, 2}, now)
	if added := busy.Restore(c, held, now); added != 2 {
		t.Errorf("%d added where 2 had room", added)
	}
	if got := match(busy, []uint64{1, 2, 3})[c]; got != 2 {
		t.Errorf("%d blocks of what it saw itself, want 2", got)
	}
	if got := match(busy, []uint64{11, 12})[c]; got != 2 {
		t.Errorf("%d blocks of what was restored, want 2", got)
	}
}

// Ages that no cache has are those of blocks nobody has used for long.
func TestRestoreOfAnyAge(t *testing.T) {
	for _, age := range []time.Duration{-time.Hour, 1 << 31 * time.Second, 1<<32*time.Second - 30*time.Second, math.MaxInt64} {
		x := prefix.New(prefix.Config{})
		s := x.Slot("a")
		x.Insert(s, []uint64{1}, start)
		x.Restore(s, []prefix.Held{{Hash: 2, Age: age}}, start)
		held := x.Held(s, start, nil)
		if old := age > 0; len(held) != 2 || (held[1].Age > time.Hour) != old {
			t.Errorf("%v: held %v", age, held)
		}
		x.Drop(s, []uint64{2})
		if hot := x.Hot(s, start, time.Minute); hot != 64 {
			t.Errorf("%v: %v tokens of one block are hot, want 64", age, hot)
		}
	}
}
