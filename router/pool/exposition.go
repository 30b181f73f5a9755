package pool

import (
	"bytes"
	"strconv"
	"strings"
)

// samples calls each with every sample of the Prometheus text format whose
// metric name wanted knows. Lines it cannot read are passed over: a metric
// that is not understood is a metric that is missing. Nothing it hands out may
// be kept.
//
// Most of a page are histograms: many lines of one name, which is looked up once.
func samples(page []byte, wanted func(name []byte) bool, each func(name, labels []byte, value float64)) {
	var unwanted []byte // the name that was looked up last, where nobody wants it
	for len(page) > 0 {
		line := page
		if end := bytes.IndexByte(page, '\n'); end >= 0 {
			line, page = page[:end], page[end+1:]
		} else {
			page = nil
		}
		if n := len(unwanted); n > 0 && len(line) > n && !inName[line[n]] && string(line[:n]) == string(unwanted) {
			continue
		}
		line = bytes.Trim(line, " \t\r")
		end := 0
		for end < len(line) && inName[line[end]] {
			end++
		}
		if end == 0 { // empty, or a comment
			continue
		}
		name, rest := line[:end], bytes.TrimLeft(line[end:], " \t")
		if !wanted(name) {
			unwanted = name
			continue
		}
		var labels []byte
		if len(rest) > 0 && rest[0] == '{' {
			n := closingBrace(rest)
			if n < 0 {
				continue
			}
			labels, rest = rest[1:n], bytes.TrimLeft(rest[n+1:], " \t")
		}
		if value, ok := sampleValue(rest); ok {
			each(name, labels, value)
		}
	}
}

// inName are the bytes of metric names.
var inName = func() (in [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:") {
		in[c] = true
	}
	return in
}()

// sampleValue reads the value; a timestamp may follow it.
func sampleValue(rest []byte) (float64, bool) {
	if end := bytes.IndexAny(rest, " \t"); end >= 0 {
		rest = rest[:end]
	}
	if len(rest) == 0 || bytes.ContainsAny(rest, "pP_") { // Go's number forms, not Prometheus's
		return 0, false
	}
	v, err := strconv.ParseFloat(string(rest), 64)
	return v, err == nil
}

// closingBrace returns the index of the brace that closes the labels s begins
// with, or -1. Braces inside quotes do not count.
func closingBrace(s []byte) int {
	quoted := false
	for i := 1; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '}' && !quoted:
			return i
		}
	}
	return -1
}

// label returns the value of a label as it is written, escapes and all.
func label(labels []byte, name string) (value []byte, ok bool) {
	for {
		labels = bytes.TrimLeft(labels, " \t,")
		key, rest, found := bytes.Cut(labels, []byte("="))
		if !found {
			return nil, false
		}
		rest = bytes.TrimLeft(rest, " \t")
		if len(rest) == 0 || rest[0] != '"' {
			return nil, false
		}
		end := 1
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(rest) {
			return nil, false
		}
		if string(bytes.TrimRight(key, " \t")) == name {
			return rest[1:end], true
		}
		labels = rest[end+1:]
	}
}

// labelNumber reads a label whose value is a number, such as block_size="16".
func labelNumber(labels []byte, name string) (float64, bool) {
	value, ok := label(labels, name)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(value)), 64)
	return v, err == nil
}
