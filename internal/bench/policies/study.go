package main

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// study is all runs of one world: cells by arm, load and seed.
type study struct {
	world   *world
	arms    []arm
	seeds   []uint64
	cells   [][][]cell
	lessons []lessons // by seed
}

// runAll runs arms in worlds, several seeds at once, and calls done after each
// world and seed.
func runAll(ctx context.Context, worlds []*world, arms []arm, seeds []uint64, done func()) ([]*study, error) {
	studies := make([]*study, len(worlds))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, w := range worlds {
		s := &study{world: w, arms: arms, seeds: seeds, lessons: make([]lessons, len(seeds))}
		s.cells = make([][][]cell, len(arms))
		for a := range s.cells {
			s.cells[a] = make([][]cell, len(w.loads))
			for l := range s.cells[a] {
				s.cells[a][l] = make([]cell, len(seeds))
			}
		}
		studies[i] = s
		for at := range seeds {
			g.Go(func() error {
				defer done()
				return s.run(ctx, at)
			})
		}
	}
	return studies, g.Wait()
}

// run runs all arms at all loads with one seed.
func (s *study) run(ctx context.Context, at int) error {
	seed := s.seeds[at]
	for a := range s.arms {
		if s.arms[a].says != forests {
			continue
		}
		var err error
		if s.lessons[at], err = s.world.learn(ctx, seed); err != nil {
			return err
		}
		break
	}
	for a := range s.arms {
		if at >= s.count(a) {
			continue
		}
		for l, load := range s.world.loads {
			var err error
			if s.cells[a][l][at], err = s.world.one(ctx, &s.arms[a], seed, load, s.lessons[at].bundle); err != nil {
				return err
			}
		}
	}
	return nil
}

// count is how many of the seeds an arm runs with, from the first.
func (s *study) count(arm int) int {
	if s.arms[arm].ablated {
		return (len(s.seeds) + 1) / 2
	}
	return len(s.seeds)
}

// arm is the number of an arm.
func (s *study) arm(name string) int {
	for i := range s.arms {
		if s.arms[i].name == name {
			return i
		}
	}
	panic(fmt.Sprintf("no arm %q", name)) // the names are constants
}

// logs is ln(arm's metric / other's) by seed, at one load, of the seeds that both
// ran with.
func (s *study) logs(arm, other int, load int, m metric) []float64 {
	out := make([]float64, min(s.count(arm), s.count(other)))
	for i := range out {
		out[i] = math.Log(s.cells[arm][load][i].Value[m] / s.cells[other][load][i].Value[m])
	}
	return out
}

// matched is the matched configuration with the lower mean E2E over all loads
// and seeds.
func (s *study) matched() int {
	token, active := s.arm(tokenLoad), s.arm(activeRequest)
	sum := 0.0
	for l := range s.world.loads {
		for _, v := range s.logs(token, active, l, e2e) {
			sum += v
		}
	}
	if sum < 0 {
		return token
	}
	return active
}

// reference is what an arm is compared with; see study.matched.
type reference func(*study) int

// against compares with an arm of that name.
func against(name string) reference { return func(s *study) int { return s.arm(name) } }

// pooled is the change of an arm over all loads of all the studies, each of which
// counts alike.
func pooled(studies []*study, name string, to reference, m metric) change {
	if len(studies) == 0 {
		return changeOf(nil)
	}
	var sums []float64
	cells := 0.0
	for _, s := range studies {
		arm, other := s.arm(name), to(s)
		if sums == nil {
			sums = make([]float64, min(s.count(arm), s.count(other)))
		}
		for l := range s.world.loads {
			cells++
			for i, v := range s.logs(arm, other, l, m) {
				sums[i] += v
			}
		}
	}
	for i := range sums {
		sums[i] /= cells
	}
	return changeOf(sums)
}

// failed is the share of the requests of an arm that failed.
func failed(studies []*study, name string, to reference) (own, reference float64) {
	var requests [2]float64
	var lost [2]float64
	for _, s := range studies {
		for k, arm := range []int{s.arm(name), to(s)} {
			for l := range s.world.loads {
				for _, c := range s.cells[arm][l] {
					requests[k] += float64(c.Requests)
					lost[k] += float64(c.Failed)
				}
			}
		}
	}
	return lost[0] / requests[0], lost[1] / requests[1]
}

// of are the studies of a group.
func of(studies []*study, g group) []*study {
	var out []*study
	for _, s := range studies {
		if s.world.group == g {
			out = append(out, s)
		}
	}
	return out
}
