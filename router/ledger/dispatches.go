package ledger

import "time"

// maxDispatches bounds the log of one incarnation. When it is full the two
// oldest records become one, so counts stay whole and only a scrape that read
// its numbers between those two would see one dispatch too many.
const maxDispatches = 256

// dispatches tells how much was sent since a scrape. Records that a scrape
// has seen are dropped when it is asked about; the log is usually a second
// long.
type dispatches struct {
	ring  []dispatch // grows to maxDispatches, then stays
	start int
	n     int
	seen  time.Time // the scrape that was asked about last has seen all up to then

	requests, tokens, prompts int64 // sums over the ring
}

type dispatch struct {
	at                        time.Time
	requests, tokens, prompts int64
}

// at returns the i-th oldest record.
func (d *dispatches) at(i int) *dispatch {
	return &d.ring[(d.start+i)%len(d.ring)]
}

// add counts a dispatch. What another router sent is heard of late: it counts
// with the first that was sent after it, unless a scrape has seen it by now.
func (d *dispatches) add(now time.Time, tokens, prompt int64) {
	if !now.After(d.seen) {
		return
	}
	d.requests++
	d.tokens += tokens
	d.prompts += prompt
	if i := d.n; i > 0 && !now.After(d.at(i-1).at) {
		for i--; i > 0 && !now.After(d.at(i-1).at); i-- {
		}
		later := d.at(i)
		later.requests++
		later.tokens += tokens
		later.prompts += prompt
		return
	}
	if d.n == len(d.ring) {
		d.makeRoom()
	}
	d.n++
	*d.at(d.n - 1) = dispatch{now, 1, tokens, prompt}
}

func (d *dispatches) makeRoom() {
	if len(d.ring) < maxDispatches {
		grown := make([]dispatch, min(max(8, 2*len(d.ring)), maxDispatches))
		for i := range d.n {
			grown[i] = *d.at(i)
		}
		d.ring, d.start = grown, 0
		return
	}
	oldest, second := d.at(0), d.at(1)
	second.requests += oldest.requests
	second.tokens += oldest.tokens
	second.prompts += oldest.prompts
	d.drop()
}

// drop forgets the oldest record, not its counts.
func (d *dispatches) drop() {
	d.start = (d.start + 1) % len(d.ring)
	d.n--
}

// since counts what was sent after t.
func (d *dispatches) since(t time.Time) (requests, tokens, prompts int64) {
	if t.After(d.seen) {
		d.seen = t
	}
	for d.n > 0 {
		oldest := d.at(0)
		if oldest.at.After(t) {
			break
		}
		d.requests -= oldest.requests
		d.tokens -= oldest.tokens
		d.prompts -= oldest.prompts
		d.drop()
	}
	return d.requests, d.tokens, d.prompts
}
