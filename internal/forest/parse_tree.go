package forest

import (
	"errors"
	"fmt"
	"strconv"
)

// parseTree reads the block of tree number index. An error that matches
// ErrUnsupported comes with a tree whose shape is sound.
func parseTree(in *lines, index, features int) (Tree, error) {
	line, ok := in.next()
	for ok && len(line) == 0 {
		line, ok = in.next()
	}
	if want := "Tree=" + strconv.Itoa(index); string(line) != want {
		return Tree{}, fmt.Errorf("line %d is %q, want %q", in.number, clip(line), want)
	}
	fields, err := in.block(line)
	if err != nil {
		return Tree{}, err
	}
	if value, ok := fields["is_linear"]; ok && string(value) != "0" {
		return Tree{}, errors.New("linear trees predict more than leaf values")
	}
	leaves, err := fields.count("num_leaves", MaxLeaves)
	if err != nil {
		return Tree{}, err
	}
	if leaves == 0 {
		return Tree{}, errors.New("num_leaves is 0, want at least 1")
	}
	categories, err := fields.count("num_cat", MaxLeaves)
	if err != nil {
		return Tree{}, err
	}
	tree := Tree{Shrinkage: 1}
	if value, ok := fields["shrinkage"]; ok {
		if tree.Shrinkage, err = parseFloat(string(value)); err != nil {
			return Tree{}, fmt.Errorf("shrinkage is %q, not a number", clip(value))
		}
	}
	if tree.Leaves, err = parseLeaves(fields, leaves); err != nil {
		return Tree{}, err
	}
	categorical := 0
	if leaves > 1 {
		if tree.Splits, categorical, err = parseSplits(fields, leaves-1, categories); err != nil {
			return Tree{}, err
		}
	}
	if err := tree.check(features); err != nil {
		return Tree{}, err
	}
	if categorical > 0 {
		return tree, fmt.Errorf("%d categorical splits: %w", categorical, ErrUnsupported)
	}
	return tree, nil
}

func parseLeaves(fields block, n int) ([]Leaf, error) {
	values, err := parseList(fields, "leaf_value", n, parseFloat)
	if err != nil {
		return nil, err
	}
	weights, err := optional(fields, "leaf_weight", n, parseFloat)
	if err != nil {
		return nil, err
	}
	counts, err := optional(fields, "leaf_count", n, parseInt)
	if err != nil {
		return nil, err
	}
	leaves := make([]Leaf, n)
	for i := range leaves {
		leaves[i] = Leaf{Value: values[i], Weight: weights[i], Count: counts[i]}
	}
	return leaves, nil
}

// parseSplits also returns how many of the splits are categorical, out of
// categories declared.
func parseSplits(fields block, n, categories int) (splits []Split, categorical int, err error) {
	var fail error
	floats := func(key string, list func(block, string, int, func(string) (float64, error)) ([]float64, error)) []float64 {
		if fail != nil {
			return nil
		}
		var out []float64
		out, fail = list(fields, key, n, parseFloat)
		return out
	}
	ints := func(key string) []int32 {
		if fail != nil {
			return nil
		}
		var out []int32
		out, fail = parseList(fields, key, n, parseInt32)
		return out
	}
	features, types := ints("split_feature"), ints("decision_type")
	left, right := ints("left_child"), ints("right_child")
	thresholds := floats("threshold", parseList[float64])
	gains := floats("split_gain", optional[float64])
	values, weights := floats("internal_value", optional[float64]), floats("internal_weight", optional[float64])
	if fail != nil {
		return nil, 0, fail
	}
	counts, err := optional(fields, "internal_count", n, parseInt)
	if err != nil {
		return nil, 0, err
	}
	if err := checkCategories(fields, categories); err != nil {
		return nil, 0, err
	}
	splits = make([]Split, n)
	for i := range splits {
		d := types[i]
		if d < 0 || d > 0b1111 {
			return nil, 0, fmt.Errorf("split %d: decision_type %d, want 0 to 15", i, d)
		}
		splits[i] = Split{
			Threshold: thresholds[i], Feature: features[i], Left: left[i], Right: right[i],
			Missing: Missing(d >> 2), DefaultLeft: d>>1&1 == 1,
			Gain: gains[i], Value: values[i], Weight: weights[i], Count: counts[i],
		}
		if d&1 == 0 {
			continue
		}
		categorical++
		if c := thresholds[i]; c < 0 || c >= float64(categories) || c != float64(int(c)) {
			return nil, 0, fmt.Errorf("split %d: category set %v, want 0 to %d", i, c, categories-1)
		}
	}
	return splits, categorical, nil
}

// maxCategoryWords bounds the 32-bit words of the category sets of one tree.
const maxCategoryWords = 1 << 16

// checkCategories verifies the category sets that leaves will index by: set i
// is the words cat_boundaries[i] to cat_boundaries[i+1] of cat_threshold.
func checkCategories(fields block, categories int) error {
	if categories == 0 {
		return nil
	}
	boundaries, err := parseList(fields, "cat_boundaries", categories+1, parseInt)
	if err != nil {
		return err
	}
	words, err := fields.list("cat_threshold", -1, maxCategoryWords)
	if err != nil {
		return err
	}
	for i, word := range words {
		if _, err := strconv.ParseUint(string(word), 10, 32); err != nil {
			return fmt.Errorf("cat_threshold: entry %d is %q: not a number in range", i, clip(word))
		}
	}
	for i := range categories {
		if boundaries[i] >= boundaries[i+1] {
			return fmt.Errorf("cat_boundaries: set %d is empty", i)
		}
	}
	if boundaries[0] != 0 || boundaries[categories] != int64(len(words)) {
		return errors.New("cat_boundaries do not span cat_threshold")
	}
	return nil
}

// optional reads n entries, or gives n zeros where the line is missing or
// empty.
func optional[T any](b block, key string, n int, one func(string) (T, error)) ([]T, error) {
	if len(b[key]) == 0 {
		return make([]T, n), nil
	}
	return parseList(b, key, n, one)
}

func parseFloat(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

func parseInt32(s string) (int32, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err
}
