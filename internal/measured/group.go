package measured

import (
	"cmp"
	"slices"
)

// Group is the rows of one deployment.
type Group[T any] struct {
	Deployment Deployment
	Rows       []T
}

// Groups sorts rows into one group for each deployment, in order of its name;
// inside a group they keep their order.
func Groups[T any](rows []T, of func(T) Deployment) []Group[T] {
	var groups []Group[T]
	place := make(map[Deployment]int)
	for _, r := range rows {
		d := of(r)
		i, ok := place[d]
		if !ok {
			i = len(groups)
			place[d] = i
			groups = append(groups, Group[T]{Deployment: d})
		}
		groups[i].Rows = append(groups[i].Rows, r)
	}
	slices.SortStableFunc(groups, func(a, b Group[T]) int { return cmp.Compare(a.Deployment.String(), b.Deployment.String()) })
	return groups
}
