package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// misfit finds the first key of a YAML document that the type has no field
// for, or whose value does not fit the field, and names its path and line.
// yaml's own strict mode names neither the path nor what would be right.
func misfit(node *yaml.Node, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch node.Kind {
	case yaml.DocumentNode:
		if len(node.Content) == 0 {
			return nil
		}
		return misfit(node.Content[0], t, path)
	case yaml.AliasNode:
		return misfit(node.Alias, t, path)
	case yaml.ScalarNode:
		if node.ShortTag() == "!!null" {
			return nil // as if the key were not there
		}
		if !fits(node, t) {
			return unfit(node, t, path, fmt.Sprintf("%q", node.Value))
		}
	case yaml.SequenceNode:
		if t.Kind() != reflect.Slice {
			return unfit(node, t, path, "a list")
		}
		for i, item := range node.Content {
			if err := misfit(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return unfit(node, t, path, "keys below it")
		}
		return misfitBelow(node, t, path)
	}
	return nil
}

// fits reports whether a type takes a scalar. The library would cut 1.5 to 1
// for a whole number.
func fits(node *yaml.Node, t reflect.Type) bool {
	value := reflect.New(t)
	if node.Decode(value.Interface()) != nil {
		return false
	}
	if node.ShortTag() != "!!float" || !value.Elem().CanInt() && !value.Elem().CanUint() {
		return true
	}
	var exact float64
	return node.Decode(&exact) == nil && exact == math.Trunc(exact)
}

// unfit is the error of a value that its field does not take.
func unfit(node *yaml.Node, t reflect.Type, path, got string) error {
	if path == "" {
		path = "the file"
	}
	return fmt.Errorf("line %d: %s: want %s, not %s", node.Line, path, wanted(t), got)
}

// wanted describes the values of a type.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 250ms, 5s or 1h"
	}
	if t == reflect.TypeFor[PredictorConfig]() {
		return inProcess + ", or keys below it"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "keys below it"
	}
	return "one value"
}

func misfitBelow(node *yaml.Node, t reflect.Type, path string) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		switch t.Kind() {
		case reflect.Map:
			if err := misfit(value, t.Elem(), at); err != nil {
				return err
			}
		case reflect.Struct:
			fields := yamlFields(t)
			field, ok := fields[key.Value]
			if !ok {
				names := make([]string, 0, len(fields))
				for name := range fields {
					names = append(names, name)
				}
				slices.Sort(names)
				return fmt.Errorf("line %d: unknown key %q; known here: %s", key.Line, at, strings.Join(names, ", "))
			}
			if err := misfit(value, field, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// yamlFields lists the keys of a struct with the types behind them.
func yamlFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
		case strings.Contains(options, "inline"):
			for k, v := range yamlFields(f.Type) {
				fields[k] = v
			}
		case name != "":
			fields[name] = f.Type
		case f.IsExported():
			fields[strings.ToLower(f.Name)] = f.Type
		}
	}
	return fields
}
