package fit

import (
	"math/rand/v2"
	"slices"
)

// folds is how often a fit is repeated, each time without one fold.
const folds = 5

// shuffled deals the distinct settings to folds, the same way each time and for
// any order of them. Dealing in order would put every row of one concurrency
// into one fold, because ladders have five steps more often than not.
func shuffled[S comparable](settings []S, compare func(a, b S) int) map[S]int {
	settings = slices.Clone(settings)
	slices.SortFunc(settings, compare)
	settings = slices.Compact(settings)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(settings), func(i, j int) { settings[i], settings[j] = settings[j], settings[i] })
	fold := make(map[S]int, len(settings))
	for i, s := range settings {
		fold[s] = i % folds
	}
	return fold
}

// block is the fold of row i of n in five contiguous blocks, so that rows that
// met the same load are on one side.
func block(i, n int) int { return i * folds / n }

// split separates the rows for which held is true.
func split[T any](rows []T, held func(i int, row T) bool) (train, test []T) {
	for i, r := range rows {
		if held(i, r) {
			test = append(test, r)
		} else {
			train = append(train, r)
		}
	}
	return train, test
}
