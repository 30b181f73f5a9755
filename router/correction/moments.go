package correction

import (
	"math"
	"time"
)

const (
	judged      = 200                   // moments, or pairs, that are looked at
	judgedLeast = 50                    // under so many nothing is judged; the last so many are looked at apart
	moment      = 25 * time.Millisecond // what was dispatched within one shared its fate
)

// sure is how many standard deviations a share has to be above what is allowed. It is
// looked at after every outcome: of 2,000 simulated days with 300,000 flips each, a coin's
// last 50 or 200 came that far above a half in 23. 2.6 would be one in a hundred looks.
const sure = 5

// moments are the last 200 moments in which something was dispatched of which an
// outcome has come, and the answers to four questions about those outcomes. A moment
// counts once, with the share of its outcomes that say yes: however many came in it,
// they met the same fleet. Those that came to an endpoint while the first of a moment
// waited there are of that moment too, for they stood in one queue; it may be long, but
// after sameFleet it is no longer the same.
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
// their sums.
type window struct {
	share    [judged]int32
	n, next  int
	few, all int64 // the sums of the last 50 and of all
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
	if w.n >= judgedLeast {
		w.few -= int64(w.share[w.place(judgedLeast-1)])
	}
	if w.n == judged {
		w.all -= int64(w.share[w.next])
	} else {
		w.n++
	}
	w.share[w.next] = share
	w.next = (w.next + 1) % judged
	w.few += int64(share)
	w.all += int64(share)
}

// set changes the answer that so many others came after.
func (w *window) set(age int, share int32) {
	at := &w.share[w.place(age)]
	by := int64(share - *at)
	*at = share
	w.all += by
	if age < judgedLeast {
		w.few += by
	}
}

// latelyAbove reports whether the last 50 answers are above a share by so many
// standard deviations.
func (w *window) latelyAbove(share, deviations float64) bool {
	return w.n >= judgedLeast && aboveBy(w.few, judgedLeast, share, deviations)
}

// above reports whether all answers are.
func (w *window) above(share, deviations float64) bool {
	return w.n >= judgedLeast && aboveBy(w.all, w.n, share, deviations)
}

func aboveBy(sum int64, n int, share, deviations float64) bool {
	expected := float64(n) * share
	return float64(sum)/whole > expected+deviations*math.Sqrt(expected*(1-share))
}
