package gbdt

// partitionRows is the fewest rows that are worth a goroutine of their own when
// they are partitioned.
const partitionRows = 2048

// partition puts the rows of [begin, end) that go left first, keeps the order
// within both sides, and returns where the right side begins.
func (g *grower) partition(begin, end int, best *candidate) int {
	goesLeft := &g.goesLeft
	clear(goesLeft[:])
	for code := range int(best.bin) + 1 {
		goesLeft[code] = 1
	}
	goesLeft[g.binned.columns[best.feature].missing()] = b2u(best.missingLeft)
	codes, shift := g.binned.codes[best.feature/quad], uint(best.feature%quad*8)

	n := end - begin
	lefts := g.lefts[:g.cut(n, partitionRows)]
	limit := func(i int) int { return begin + i*n/len(lefts) }
	g.crew.each(len(lefts), func(_, i int) {
		from, to := limit(i), limit(i+1)
		lefts[i] = partitionPart(g.rows[from:to], g.spill[from:to], codes, shift, goesLeft)
	})
	// Each part now has its left rows in place and its right rows in spill.
	at := begin
	for i, n := range lefts {
		at += copy(g.rows[at:end], g.rows[limit(i):limit(i)+n])
	}
	mid := at
	for i, n := range lefts {
		at += copy(g.rows[at:end], g.spill[limit(i):limit(i+1)-n])
	}
	return mid
}

// partitionPart moves the rows that go left to the front, copies the others to
// the front of spill and returns how many go left.
func partitionPart(rows, spill []int32, codes []uint32, shift uint, goesLeft *[256]uint8) int {
	left, right := 0, 0
	// Both sides are written every time and one moves on: no branch to guess.
	// rows[left] was read before, or is r itself.
	spill = spill[:len(rows)]
	for _, r := range rows {
		rows[left], spill[right] = r, r
		step := int(goesLeft[uint8(codes[r]>>(shift&31))])
		left += step
		right += 1 - step
	}
	return left
}

// cut is into how many even parts n rows are cut, each of at least least.
func (g *grower) cut(n, least int) int { return max(1, min(g.crew.threads, n/least)) }

// b2u compiles to a flag-set instruction, not to a jump.
func b2u(b bool) uint8 {
	var u uint8
	if b {
		u = 1
	}
	return u
}
