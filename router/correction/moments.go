package correction

import (
	"math"
	"time"
)

const (
	judged      = 200                   // moments, or pairs, that are looked at
	judgedLeast = 50                    // under so many nothing is judged
	moment      = 25 * time.Millisecond // what was dispatched within one shared its fate
	queues      = time.Second           // who waits for less does not stand in a queue
)

// The lengths of what is looked at, from the newest on.
const (
	few = iota
	some
	all
)

var lengths = [...]int{few: judgedLeast, some: 100, all: judged}

// sure is how many standard deviations a share has to be above what is allowed. It is
// looked at after every outcome: of 2,000 simulated days with 300,000 flips each, a coin's
// last 50, 100 or 200 came that far above a half in 25. 2.6 would be one in a hundred
// looks.
const sure = 5

// moments are the last 200 moments in which something was dispatched of which an
// outcome has come, and the answers to four questions about those outcomes. A moment
// counts once, with the share of its outcomes that say yes: however many came in it,
// they met the same fleet. Those that came to an endpoint while the first of a moment
// waited there, for a second or more, are of that moment too, for they stood in one
// queue; it may be long, but after sameFleet it is no longer the same.
type moments struct {
	kept [judged]struct {
		slot     int64  // of time
		endpoint string // of its first outcome
		from, to int64  // of its wait, as far as it counts, in Unix nanoseconds
		outcomes int32
		yes      [questions]int32
	}
	until   int64 // the end of the latest of all that ever were
	answers [questions]window
}

// The questions.
const (
	far    = iota // was it far from its p50
	misled        // and the prior nearer
	missed        // was it well above its p90
	lulled        // and the prior nearer
	questions
)

// add counts an outcome of what was dispatched to an endpoint at a time, and waited
// there so long for what is asked about; 0 where that is not a wait.
func (m *moments) add(endpoint string, dispatched time.Time, waited time.Duration, says [questions]bool) {
	if waited < queues {
		waited = 0
	}
	from := dispatched.UnixNano()
	slot, to := from/int64(moment), from+int64(min(waited, sameFleet))
	first := &m.answers[0] // of all alike
	age, place := 0, first.next
	if from >= m.until {
		age = first.n
	}
	m.until = max(m.until, to, (slot+1)*int64(moment))
	for ; age < first.n; age++ {
		if place--; place < 0 {
			place = judged - 1
		}
		of := &m.kept[place]
		if of.slot == slot || of.from < to && from < of.to && of.endpoint == endpoint {
			break
		}
	}
	if age == first.n {
		age, place = 0, first.next
		for q := range m.answers {
			m.answers[q].push(0)
		}
		of := &m.kept[place]
		of.slot, of.endpoint, of.from, of.to = slot, endpoint, from, to
		of.outcomes, of.yes = 0, [questions]int32{}
	}
	of := &m.kept[place]
	of.outcomes++
	for q, yes := range says {
		if yes {
			of.yes[q]++
		}
		m.answers[q].set(age, whole*of.yes[q]/of.outcomes)
	}
}

// whole is a share of 1.
const whole = 1 << 16

// window is the last 200 answers to one question, each a share from 0 to whole, and
// the sums of as many as the lengths say.
type window struct {
	share   [judged]int32
	n, next int
	sums    [len(lengths)]int64
}

// place is where the answer is that so many others came after.
func (w *window) place(age int) int {
	if i := w.next - 1 - age; i >= 0 {
		return i
	}
	return w.next - 1 - age + judged
}

// push adds an answer.
func (w *window) push(share int32) {
	for i, length := range lengths {
		if w.n >= length {
			w.sums[i] -= int64(w.share[w.place(length-1)])
		}
		w.sums[i] += int64(share)
	}
	w.n = min(w.n+1, judged)
	w.share[w.next] = share
	w.next = (w.next + 1) % judged
}

// set changes the answer that so many others came after.
func (w *window) set(age int, share int32) {
	at := &w.share[w.place(age)]
	by := int64(share - *at)
	*at = share
	for i, length := range lengths {
		if age < length {
			w.sums[i] += by
		}
	}
}

// above reports whether the last answers, as many as one of the lengths says or as
// there are, are above a share by so many standard deviations.
func (w *window) above(last int, share, deviations float64) bool {
	if w.n < judgedLeast {
		return false
	}
	expected := share * float64(min(w.n, lengths[last]))
	return float64(w.sums[last])/whole > expected+deviations*math.Sqrt(expected*(1-share))
}
