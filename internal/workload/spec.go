package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// patience is when clients give up unless a published definition says
// otherwise; the published ones wait 300 s or 600 s.
const patience = 600 * time.Second

// Spec is one workload. The exported fields may be changed before a plan is
// made; Named gives their defaults.
type Spec struct {
	Name string

	// Closed says that a load is a number of clients, each of which waits for
	// its answers, rather than a rate of arrivals.
	Closed bool

	// Unit is what a load counts: "clients", "requests/s", or "x nominal" of
	// shifting, whose regimes have rates of their own.
	Unit string

	// Rounds is the requests that each client of a closed loop sends, so
	// Rounds times the load is how many a plan has.
	Rounds int

	// Duration is how long sessions arrive in an open loop; 0: without end.
	// The stages of b2b-saas have the published lengths instead.
	Duration time.Duration

	// Warmup, Timeout, Ramp and Workers become the plan's.
	Warmup, Timeout, Ramp time.Duration
	Workers               int

	// Rate is a rate in requests/s that a handful of endpoints can serve; 0
	// for b2b-saas, which is climbed.
	Rate float64

	// Slow says which of the endpoints the workload wants slow: most want
	// none.
	Slow Slowdown

	ladder  []float64
	regimes []regime
	change  time.Duration // how long a regime lasts; 0: there is one
	staged  bool          // loads are the published stages of b2b-saas
}

// Slowdown is what a workload wants of its fleet.
type Slowdown struct {
	Share  float64 // of the endpoints, rounded down, but never less than one; 0: none
	Factor float64 // how many times as long a step of these takes
	From   float64 // when it begins, as a share of the run
}

// Endpoints is how many of n endpoints are slow.
func (s Slowdown) Endpoints(n int) int {
	if s.Share <= 0 || n < 1 {
		return 0
	}
	return max(int(s.Share*float64(n)), 1)
}

// regime is a time with one kind of traffic.
type regime struct {
	blend blend
	rate  float64 // requests/s at load 1
}

// Names returns the workloads: the published ones first.
func Names() []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

// Named returns the workload of that name, or an error that lists those there
// are.
func Named(name string) (Spec, error) {
	for _, s := range specs {
		if s.Name == name {
			return s, nil
		}
	}
	return Spec{}, fmt.Errorf("workload %q is not known: expected one of %s", name, strings.Join(Names(), ", "))
}

// Ladder returns the loads that the workload is judged at, ascending: the
// published ones where there are such, else from idle to beyond what 10
// endpoints of a 32B model on two H100s can serve.
func (s Spec) Ladder() []float64 { return slices.Clone(s.ladder) }

// Check reports a load that is none: Sessions of it would be empty.
func (s Spec) Check(load float64) error {
	switch {
	case math.IsNaN(load) || math.IsInf(load, 0) || load <= 0:
		return fmt.Errorf("load %g: expected more than 0 %s", load, s.Unit)
	case s.Closed && load != math.Trunc(load):
		return fmt.Errorf("load %g: expected a whole number of clients", load)
	case s.Closed && load > maxClients:
		return fmt.Errorf("load %g: expected at most %d clients", load, maxClients)
	}
	return nil
}

const maxClients = 1 << 20

// Sessions plans the workload at one load, which Check must accept; otherwise
// the plan is empty.
func (s Spec) Sessions(seed uint64, load float64) Plan {
	switch {
	case s.Check(load) != nil:
		return Plan{Sessions: func(func(Session) bool) {}}
	case s.Closed:
		return s.closed(seed, int(load))
	case s.staged:
		return s.stages(seed, []stage{warmUp, published(load)})
	}
	return s.open(seed, load, s.Duration)
}

// Open plans the workload's sessions as a Poisson process of rate requests a
// second, also those of a closed loop, which then say each session once. A
// workload that shifts has that rate in all its regimes. The rate must be
// above 0.
func (s Spec) Open(seed uint64, rate float64) Plan {
	s.Closed, s.staged = false, false
	s.regimes = slices.Clone(s.regimes)
	for i := range s.regimes {
		s.regimes[i].rate = 1
	}
	return s.open(seed, rate, s.Duration)
}

// Climb plans the whole ladder of an open loop in one run, with a pause of
// 30 s before each further load: the way in which b2b-saas is published. The
// plan's Stages tell the loads apart. Of a closed loop it is empty.
func (s Spec) Climb(seed uint64) Plan {
	var all []stage
	switch {
	case s.Closed:
	case s.staged:
		all = append(all, warmUp)
		for _, load := range s.ladder {
			all = append(all, published(load))
		}
	default:
		for _, load := range s.ladder {
			all = append(all, stage{load: load, length: max(s.Duration, time.Second), counts: true})
		}
	}
	return s.stages(seed, all)
}

// closed plans a closed loop.
func (s Spec) closed(seed uint64, clients int) Plan {
	k := s.regimes[0].blend[0].kind
	plan := s.loop(clients)
	plan.Sessions = func(yield func(Session) bool) {
		speak := newSpeaker(k, seed)
		if k.turns.most > 1 || s.Workers > 0 {
			for i := range clients {
				if !yield(Session{Index: i, Class: k.name, Turns: speak.replay(speak.script(i), s.Rounds)}) {
					return
				}
			}
			return
		}
		for i := range plan.Limit {
			turns := speak.perform(speak.script(i%clients), uint64(i))
			if !yield(Session{Index: i, Class: k.name, Turns: turns}) {
				return
			}
		}
	}
	return plan
}

// loop is the plan of a closed loop, without its sessions.
func (s Spec) loop(clients int) Plan {
	return Plan{Concurrency: clients, Workers: s.Workers, Limit: s.Rounds * clients, Warmup: s.Warmup, Timeout: s.Timeout, Ramp: s.Ramp}
}
