package forest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Parse reads LightGBM text with header version=v3 or v4 and one output.
//
// It refuses, with an error that says where, everything else: other formats,
// counts beyond the limits of this package, nodes that do not form trees,
// numbers that are not finite, linear trees and reg_sqrt. A file refused only
// for categorical splits or averaged output gives an error that matches
// ErrUnsupported; it has passed all other checks, so leaves may load it.
//
// Header lines of unknown key become Header.Metadata; whatever follows the
// trees (importances, training parameters) is not kept.
func Parse(text []byte) (*Forest, error) {
	f, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse forest: %w", err)
	}
	return f, nil
}

func parse(text []byte) (*Forest, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(text), MaxBytes)
	}
	in := &lines{rest: text}
	header, trees, averaged, err := parseHeader(in)
	if err != nil {
		return nil, err
	}
	parsed := make([]Tree, 0, trees)
	leaves := 0
	var unsupported error
	if averaged {
		unsupported = fmt.Errorf("averaged output: %w", ErrUnsupported)
	}
	for i := range trees {
		tree, err := parseTree(in, i, len(header.FeatureNames))
		if errors.Is(err, ErrUnsupported) {
			unsupported = fmt.Errorf("tree %d: %w", i, err)
		} else if err != nil {
			return nil, fmt.Errorf("tree %d: %w", i, err)
		}
		if leaves += len(tree.Leaves); leaves > MaxTotalLeaves {
			return nil, fmt.Errorf("more than %d leaves in all trees", MaxTotalLeaves)
		}
		parsed = append(parsed, tree)
	}
	if err := parseTrailer(in); err != nil {
		return nil, err
	}
	if err := header.check(); err != nil {
		return nil, err
	}
	if unsupported != nil {
		return nil, unsupported
	}
	return New(header, parsed)
}

// ParseHeader reads only what a text says about itself before its trees. It
// refuses what Parse would refuse until there.
func ParseHeader(text []byte) (Header, error) {
	h, _, _, err := parseHeader(&lines{rest: text[:min(len(text), MaxBytes)]})
	if err == nil {
		err = h.check()
	}
	if err != nil {
		return Header{}, fmt.Errorf("parse forest: %w", err)
	}
	return h, nil
}

// lines gives the lines of a text without outer blanks.
type lines struct {
	rest   []byte
	number int // of the line given last, from 1
}

func (l *lines) next() (line []byte, ok bool) {
	if len(l.rest) == 0 {
		return nil, false
	}
	line, l.rest, _ = bytes.Cut(l.rest, []byte{'\n'})
	l.number++
	return bytes.TrimSpace(line), true
}

// block is one run of key=value lines.
type block map[string][]byte

// maxBlockLines bounds the memory of one block; LightGBM writes about twenty.
const maxBlockLines = 1_024

// block reads lines up to and without the next empty one; the line before it,
// if not nil, is its first.
func (l *lines) block(first []byte) (block, error) {
	fields := block{}
	line, ok := first, true
	if line == nil {
		line, ok = l.next()
	}
	for ; ok && len(line) > 0; line, ok = l.next() {
		key, value, _ := bytes.Cut(line, []byte{'='})
		if bytes.IndexByte(value, '=') >= 0 {
			return nil, fmt.Errorf("line %d: more than one '='", l.number)
		}
		if len(fields) == maxBlockLines {
			return nil, fmt.Errorf("line %d: more than %d lines in one block", l.number, maxBlockLines)
		}
		if _, twice := fields[string(key)]; twice {
			return nil, fmt.Errorf("line %d: second %q", l.number, clip(key))
		}
		fields[string(key)] = value
	}
	return fields, nil
}

// parseHeader reads up to the first tree and returns how many trees follow
// and whether their values are averaged instead of summed.
func parseHeader(in *lines) (h Header, trees int, averaged bool, err error) {
	if line, _ := in.next(); string(line) != "tree" {
		return h, 0, false, fmt.Errorf("first line is %q, want \"tree\": not a LightGBM text", clip(line))
	}
	version, _ := in.next()
	if s := string(version); s != "version=v3" && s != "version=v4" {
		return h, 0, false, fmt.Errorf("second line is %q, want version=v3 or version=v4", clip(version))
	}
	fields, err := in.block(nil)
	if err != nil {
		return h, 0, false, err
	}
	for _, key := range []string{"num_class", "num_tree_per_iteration"} {
		if string(fields[key]) != "1" {
			return h, 0, false, fmt.Errorf("%s is %q, want 1", key, clip(fields[key]))
		}
	}
	last, err := fields.count("max_feature_idx", MaxFeatures-1)
	if err != nil {
		return h, 0, false, err
	}
	sizes, err := fields.list("tree_sizes", -1, MaxTrees)
	if err != nil {
		return h, 0, false, err
	}
	if len(sizes) == 0 {
		return h, 0, false, errors.New("tree_sizes names no trees")
	}
	_, averaged = fields["average_output"]
	h.Objective = string(fields["objective"])
	if err := h.parseFeatures(fields, last+1); err != nil {
		return h, 0, false, err
	}
	for key, value := range fields {
		if headerKeys[key] {
			continue
		}
		if h.Metadata == nil {
			h.Metadata = map[string]string{}
		}
		h.Metadata[key] = string(value)
	}
	return h, len(sizes), averaged, nil
}

// parseFeatures reads the header lines that list the n features.
func (h *Header) parseFeatures(fields block, n int) error {
	names, err := fields.list("feature_names", n, n)
	if err != nil {
		return err
	}
	for _, name := range names {
		h.FeatureNames = append(h.FeatureNames, string(name))
	}
	if _, ok := fields["monotone_constraints"]; ok {
		signs, err := parseList(fields, "monotone_constraints", n, func(s string) (int8, error) {
			sign, err := strconv.ParseInt(s, 10, 8)
			return int8(sign), err
		})
		if err != nil {
			return err
		}
		h.MonotoneConstraints = signs
	}
	if _, ok := fields["feature_infos"]; ok {
		h.Ranges, err = parseList(fields, "feature_infos", n, parseRange)
		if err != nil {
			return err
		}
	}
	return nil
}

// parseRange reads "[min:max]". "none" and the category lists of categorical
// features name no range.
func parseRange(s string) (Range, error) {
	unknown := Range{math.NaN(), math.NaN()}
	inner, found := strings.CutPrefix(s, "[")
	if !found {
		return unknown, nil
	}
	low, high, _ := strings.Cut(strings.TrimSuffix(inner, "]"), ":")
	var r Range
	var err error
	if r.Min, err = strconv.ParseFloat(low, 64); err != nil {
		return unknown, err
	}
	r.Max, err = strconv.ParseFloat(high, 64)
	return r, err
}

// parseTrailer wants the line that ends the trees, without which the text was
// cut short, and looks through what follows it for training parameters that
// change what a tree means.
func parseTrailer(in *lines) error {
	ended := false
	for line, ok := in.next(); ok; line, ok = in.next() {
		ended = ended || string(line) == "end of trees"
		if !ended && bytes.HasPrefix(line, []byte("Tree=")) {
			return fmt.Errorf("line %d: more trees than tree_sizes names", in.number)
		}
		for _, key := range []string{"linear_tree", "reg_sqrt"} {
			value, found := bytes.CutPrefix(line, []byte("["+key+":"))
			if !found {
				continue
			}
			value = bytes.TrimSpace(bytes.TrimSuffix(value, []byte("]")))
			if string(value) != "0" && string(value) != "false" {
				return fmt.Errorf("line %d: %s is %q: its predictions are not sums of leaf values", in.number, key, clip(value))
			}
		}
	}
	if !ended {
		return errors.New("no \"end of trees\": the text is cut short")
	}
	return nil
}

// count reads a whole number from 0 to limit.
func (b block) count(key string, limit int) (int, error) {
	value, ok := b[key]
	if !ok {
		return 0, fmt.Errorf("no %s", key)
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%s is %q, want 0 to %d", key, clip(value), limit)
	}
	return n, nil
}

// list splits a value at blanks into want entries, or into any number up to
// limit when want is negative.
func (b block) list(key string, want, limit int) ([][]byte, error) {
	value, ok := b[key]
	if !ok {
		return nil, fmt.Errorf("no %s", key)
	}
	if want >= 0 {
		limit = want
	}
	entries := make([][]byte, 0, min(limit, len(value)))
	for entry := range bytes.FieldsSeq(value) {
		if len(entries) == limit {
			return nil, fmt.Errorf("%s has more than %d entries", key, limit)
		}
		entries = append(entries, entry)
	}
	if want >= 0 && len(entries) != want {
		return nil, fmt.Errorf("%s has %d entries, want %d", key, len(entries), want)
	}
	return entries, nil
}

// parseList reads exactly n entries.
func parseList[T any](b block, key string, n int, one func(string) (T, error)) ([]T, error) {
	entries, err := b.list(key, n, n)
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	for i, entry := range entries {
		if out[i], err = one(string(entry)); err != nil {
			return nil, fmt.Errorf("%s: entry %d is %q: not a number in range", key, i, clip(entry))
		}
	}
	return out, nil
}

// clip shortens what comes from outside for an error message.
func clip[T string | []byte](s T) string {
	const most = 40
	if len(s) > most {
		return string(s[:most]) + "..."
	}
	return string(s)
}
