package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// unknownKey finds the first key of a YAML document that the type has no field
// for, and names its path and line. yaml's own strict mode names neither the
// path nor what would be right.
func unknownKey(node *yaml.Node, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch node.Kind {
	case yaml.DocumentNode:
		if len(node.Content) == 0 {
			return nil
		}
		return unknownKey(node.Content[0], t, path)
	case yaml.AliasNode:
		return unknownKey(node.Alias, t, path)
	case yaml.SequenceNode:
		if t.Kind() != reflect.Slice {
			return nil // decoding says what is wrong
		}
		for i, item := range node.Content {
			if err := unknownKey(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		return unknownMapKey(node, t, path)
	}
	return nil
}

func unknownMapKey(node *yaml.Node, t reflect.Type, path string) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		switch t.Kind() {
		case reflect.Map:
			if err := unknownKey(value, t.Elem(), at); err != nil {
				return err
			}
		case reflect.Struct:
			if t == reflect.TypeFor[time.Time]() {
				return nil
			}
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
			if err := unknownKey(value, field, at); err != nil {
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
