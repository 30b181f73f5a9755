package forest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// headerKeys are the header lines with a meaning of their own; every other
// key=value line of a header is metadata.
var headerKeys = map[string]bool{
	"tree": true, "version": true, "num_class": true, "num_tree_per_iteration": true,
	"label_index": true, "max_feature_idx": true, "objective": true, "average_output": true,
	"feature_names": true, "monotone_constraints": true, "feature_infos": true,
	"tree_sizes": true, "Tree": true,
}

// Text writes the forest as LightGBM text, version=v3, with every number in
// the shortest form that reads back exactly. The same forest gives the same
// bytes, and Parse of them gives an equal forest.
func (f *Forest) Text() []byte {
	trees := make([][]byte, len(f.trees))
	size := 4096
	for i := range f.trees {
		trees[i] = appendTree(nil, i, &f.trees[i])
		size += len(trees[i])
	}
	b := appendHeader(make([]byte, 0, size), &f.header)
	b = append(b, "tree_sizes="...)
	b = appendList(b, len(trees), func(b []byte, i int) []byte {
		return strconv.AppendInt(b, int64(len(trees[i])), 10)
	})
	b = append(b, '\n')
	for _, text := range trees {
		b = append(b, text...)
	}
	return append(b, "end of trees\n"...)
}

func appendHeader(b []byte, h *Header) []byte {
	b = append(b, "tree\nversion=v3\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"...)
	b = fmt.Appendf(b, "max_feature_idx=%d\n", len(h.FeatureNames)-1)
	if h.Objective != "" {
		b = fmt.Appendf(b, "objective=%s\n", h.Objective)
	}
	b = fmt.Appendf(b, "feature_names=%s\n", strings.Join(h.FeatureNames, " "))
	if len(h.MonotoneConstraints) > 0 {
		b = append(b, "monotone_constraints="...)
		b = appendList(b, len(h.MonotoneConstraints), func(b []byte, i int) []byte {
			return strconv.AppendInt(b, int64(h.MonotoneConstraints[i]), 10)
		})
	}
	b = append(b, "feature_infos="...)
	b = appendList(b, len(h.FeatureNames), func(b []byte, i int) []byte {
		if len(h.Ranges) == 0 || h.Ranges[i].Min != h.Ranges[i].Min {
			return append(b, "none"...)
		}
		b = appendFloat(append(b, '['), h.Ranges[i].Min)
		b = appendFloat(append(b, ':'), h.Ranges[i].Max)
		return append(b, ']')
	})
	for _, key := range slices.Sorted(maps.Keys(h.Metadata)) {
		b = fmt.Appendf(b, "%s=%s\n", key, h.Metadata[key])
	}
	return b
}

// appendTree ends with the two empty lines that LightGBM counts into
// tree_sizes.
func appendTree(b []byte, index int, t *Tree) []byte {
	b = fmt.Appendf(b, "Tree=%d\nnum_leaves=%d\nnum_cat=0\n", index, len(t.Leaves))
	splits := func(key string, appendOne func([]byte, *Split) []byte) {
		b = append(append(b, key...), '=')
		b = appendList(b, len(t.Splits), func(b []byte, i int) []byte { return appendOne(b, &t.Splits[i]) })
	}
	leaves := func(key string, appendOne func([]byte, *Leaf) []byte) {
		b = append(append(b, key...), '=')
		b = appendList(b, len(t.Leaves), func(b []byte, i int) []byte { return appendOne(b, &t.Leaves[i]) })
	}
	splits("split_feature", func(b []byte, s *Split) []byte { return strconv.AppendInt(b, int64(s.Feature), 10) })
	splits("split_gain", func(b []byte, s *Split) []byte { return appendFloat(b, s.Gain) })
	splits("threshold", func(b []byte, s *Split) []byte { return appendFloat(b, s.Threshold) })
	splits("decision_type", func(b []byte, s *Split) []byte { return strconv.AppendUint(b, s.decisionType(), 10) })
	splits("left_child", func(b []byte, s *Split) []byte { return strconv.AppendInt(b, int64(s.Left), 10) })
	splits("right_child", func(b []byte, s *Split) []byte { return strconv.AppendInt(b, int64(s.Right), 10) })
	leaves("leaf_value", func(b []byte, l *Leaf) []byte { return appendFloat(b, l.Value) })
	leaves("leaf_weight", func(b []byte, l *Leaf) []byte { return appendFloat(b, l.Weight) })
	leaves("leaf_count", func(b []byte, l *Leaf) []byte { return strconv.AppendInt(b, l.Count, 10) })
	splits("internal_value", func(b []byte, s *Split) []byte { return appendFloat(b, s.Value) })
	splits("internal_weight", func(b []byte, s *Split) []byte { return appendFloat(b, s.Weight) })
	splits("internal_count", func(b []byte, s *Split) []byte { return strconv.AppendInt(b, s.Count, 10) })
	shrinkage := t.Shrinkage
	if shrinkage == 0 {
		shrinkage = 1
	}
	b = appendFloat(append(b, "shrinkage="...), shrinkage)
	return append(b, "\n\n\n"...)
}

// decisionType packs what LightGBM keeps in decision_type: bit 0 categorical,
// bit 1 default left, bits 2-3 missing type.
func (s *Split) decisionType() uint64 {
	d := uint64(s.Missing) << 2
	if s.DefaultLeft {
		d |= 1 << 1
	}
	return d
}

// appendList writes n entries separated by blanks and ends the line.
func appendList(b []byte, n int, appendOne func([]byte, int) []byte) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendOne(b, i)
	}
	return append(b, '\n')
}

func appendFloat(b []byte, x float64) []byte { return strconv.AppendFloat(b, x, 'g', -1, 64) }
