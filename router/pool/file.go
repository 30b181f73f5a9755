package pool

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ParseEndpoints reads an endpoints file: YAML or JSON, a list of endpoints or
// a mapping with the one key endpoints. An entry is a mapping with the keys of
// Endpoint, or only a URL:
//
//	endpoints:
//	  - url: http://10.0.0.1:8000
//	    class: h100-tp2
//	    llms: [qwen3-32b]
//	  - http://10.0.0.2:8000
//
// Entries it cannot use are left out, each with one complaint that names its
// line. The rest is complete and checked, in the file's order.
func ParseEndpoints(data []byte) (endpoints []Endpoint, complaints []error) {
	entries, err := entriesOf(data, 0)
	if err != nil {
		entries, complaints = entriesOneByOne(data, err)
	}
	lines := map[string]int{}
	for _, n := range entries {
		e, err := decodeEntry(n.node)
		if err == nil {
			e, err = e.complete()
		}
		line := n.node.Line + n.before
		if err == nil && lines[e.ID] != 0 {
			err = fmt.Errorf("endpoint %s is already on line %d", e.ID, lines[e.ID])
		}
		if err != nil {
			complaints = append(complaints, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		lines[e.ID] = line
		endpoints = append(endpoints, e)
	}
	return endpoints, complaints
}

// located is an entry and the number of lines before the text it was read
// from.
type located struct {
	node   *yaml.Node
	before int
}

func entriesOf(data []byte, before int) ([]located, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	list := document.Content[0]
	if list.Kind == yaml.MappingNode {
		if len(list.Content) != 2 || list.Content[0].Value != "endpoints" {
			return nil, fmt.Errorf("line %d: want a list of endpoints, or one key endpoints that holds it", list.Line+before)
		}
		list = list.Content[1]
	}
	if list.Kind == yaml.ScalarNode && list.Tag == "!!null" {
		return nil, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: want a list of endpoints", list.Line+before)
	}
	var entries []located
	for _, n := range list.Content {
		entries = append(entries, located{n, before})
	}
	return entries, nil
}

var item = regexp.MustCompile(`^( *)- `)

// entriesOneByOne reads a file that is not YAML as a whole: every item of the
// list for itself, so that one bad line costs one endpoint. Where there are no
// items to tell apart, the whole file is the complaint.
func entriesOneByOne(data []byte, whole error) (entries []located, complaints []error) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	var starts []int
	indent := -1
	for i, line := range lines {
		m := item.FindSubmatch(line)
		if m == nil {
			continue
		}
		if indent < 0 {
			indent = len(m[1])
		}
		if len(m[1]) == indent {
			starts = append(starts, i)
		}
	}
	if len(starts) == 0 {
		return nil, []error{plain(whole)}
	}
	for i, start := range starts {
		end := len(lines)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		one, err := entriesOf(bytes.Join(lines[start:end], nil), start)
		if err != nil {
			complaints = append(complaints, fmt.Errorf("line %d: the entry is not YAML: %q", start+1, strings.TrimSpace(string(lines[start]))))
			continue
		}
		entries = append(entries, one...)
	}
	if len(complaints) == 0 { // the trouble is outside the items
		complaints = append(complaints, plain(whole))
	}
	return entries, complaints
}

// plain takes the library's name off its messages.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

func decodeEntry(n *yaml.Node) (Endpoint, error) {
	var e Endpoint
	switch n.Kind {
	case yaml.ScalarNode:
		e.URL = n.Value
		return e, nil
	case yaml.MappingNode:
	default:
		return e, errors.New("want a URL, or a mapping with the key url")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		switch {
		case !slices.Contains(keys, key):
			return e, fmt.Errorf("unknown key %q: want one of %s", key, strings.Join(keys, ", "))
		case key == "llms" && value.Kind != yaml.SequenceNode:
			return e, errors.New("llms is not a list: want one such as [qwen3-32b]")
		case key == "draining" && value.ShortTag() != "!!bool":
			return e, errors.New("draining is neither true nor false")
		case key != "llms" && value.Kind != yaml.ScalarNode:
			return e, fmt.Errorf("%s is not a single value", key)
		}
	}
	if err := n.Decode(&e); err != nil {
		return e, plain(err)
	}
	return e, nil
}

// keys are those of Endpoint.
var keys = []string{"id", "url", "class", "profile", "llms", "metrics_path", "metrics_port", "draining"}
