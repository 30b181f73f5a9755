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
// they met the same fleet.
type moments struct {
	kept [judged]struct {
		slot     int64 // of time
		outcomes int32
		yes      [questions]int32
	}
	latest  int64 // of the slots
	answers [questions]window
}

// The questions.
const (
	far    = iota // was it far from its p50
	misled        // and further than from its prior
	missed        // was it well above its p90
	lulled        // and further from its p50 than from its prior
	questions
)

// add counts an outcome of what was dispatched at a time.
func (m *moments) add(dispatched time.Time, says [questions]bool) {
	slot := dispatched.UnixNano() / int64(moment)
	first := &m.answers[0] // of all alike
	age := 0
	if slot > m.latest {
		age = first.n
	}
	for age < first.n && m.kept[first.place(age)].slot != slot {
		age++
	}
	m.latest = max(m.latest, slot)
	if age == first.n {
		for q := range m.answers {
			m.answers[q].push(0)
		}
		age = 0
		at := &m.kept[first.place(0)]
		at.slot, at.outcomes, at.yes = slot, 0, [questions]int32{}
	}
	at := &m.kept[first.place(age)]
	at.outcomes++
	for q, yes := range says {
		if yes {
			at.yes[q]++
		}
		m.answers[q].set(age, whole*at.yes[q]/at.outcomes)
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
