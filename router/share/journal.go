package share

import (
	"sync"

	"github.com/spillway-llm/spillway/router/route"
)

// Bounds of what waits to be told: some seconds of a busy router. When one is
// reached the oldest words are dropped, and followers that have not read them
// are told all that is in flight anew.
const (
	mostWords  = 1 << 14
	mostHashes = 1 << 21
)

// journal is what is to be told, for all followers together. With none it keeps
// nothing.
type journal struct {
	mu        sync.Mutex
	words     []route.Word // those numbered from first on
	first     uint64
	hashes    int // in them
	followers map[*follower]struct{}
}

// follower is one that reads the journal.
type follower struct {
	at   uint64        // number of the next word it reads
	news chan struct{} // holds one: there may be something to read
}

func newJournal() *journal { return &journal{followers: map[*follower]struct{}{}} }

// join adds a follower, which reads from what is told next; it reports false
// when there are as many as may be.
func (j *journal) join() (*follower, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.followers) >= mostPeers {
		return nil, false
	}
	f := &follower{at: j.next(), news: make(chan struct{}, 1)}
	j.followers[f] = struct{}{}
	return f, true
}

func (j *journal) leave(f *follower) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.followers, f)
	if len(j.followers) == 0 {
		j.drop(len(j.words))
	}
}

// skip lets a follower read from what is told next.
func (j *journal) skip(f *follower) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f.at = j.next()
}

func (j *journal) next() uint64 { return j.first + uint64(len(j.words)) }

// tell adds a word.
func (j *journal) tell(w *route.Word) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.followers) == 0 {
		return
	}
	j.words = append(j.words, *w)
	j.hashes += len(w.Entry.Chain) + len(w.Chain)
	if len(j.words) > mostWords || j.hashes > mostHashes {
		j.drop(len(j.words)/4 + 1) // many at once: what is left moves
	}
	for f := range j.followers {
		select {
		case f.news <- struct{}{}:
		default: // it will read this with what it was woken for
		}
	}
}

// drop forgets the oldest n words.
func (j *journal) drop(n int) {
	for i := range n {
		j.hashes -= len(j.words[i].Entry.Chain) + len(j.words[i].Chain)
	}
	left := copy(j.words, j.words[n:])
	clear(j.words[left:])
	j.words = j.words[:left]
	j.first += uint64(n)
}

// read appends to out up to most words that f has not read. It reports false when
// some of these are gone.
func (j *journal) read(f *follower, out []route.Word, most int) ([]route.Word, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.at < j.first {
		return out, false
	}
	unread := j.words[f.at-j.first:]
	unread = unread[:min(most, len(unread))]
	f.at += uint64(len(unread))
	out = append(out, unread...)
	j.forgetRead()
	return out, true
}

// forgetRead drops what all followers have read, once it is much.
func (j *journal) forgetRead() {
	least := j.next()
	for f := range j.followers {
		least = min(least, f.at)
	}
	if least <= j.first {
		return
	}
	if read := int(least - j.first); read == len(j.words) || read > mostWords/4 {
		j.drop(read)
	}
}
