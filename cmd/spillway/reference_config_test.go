package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

const configurationHead = `# Configuration

One YAML file serves all processes; each reads its own part. Every key may be left out,
and an unknown one is an error that names it. ` + "`--check-config`" + ` checks a file and
starts nothing; [spillway.yaml](../../deploy/config/spillway.yaml) has every key with its
default.

Durations are written as ` + "`250ms`, `5s`, `10m` or `1h`" + `. Sizes are bytes.

From the environment alone comes what must not stand in a file:

| variable | means |
|---|---|
| ` + "`DATABASE_URL`" + ` | where Postgres is: ` + "`postgres://user:password@host:5432/database?sslmode=verify-full`" + ` |
| ` + "`LISTEN_DATABASE_URL`" + ` | the same past a pooler in transaction mode, for the predictor's notifications; without it there it polls |

This page is generated from the source: ` + "`make generate`" + `.
`

// configurationPage lists every key of the configuration: from the types that it
// is read into, their comments, and the defaults.
func configurationPage(t *testing.T) string {
	r := configReference{comments: map[string]map[string]string{}}
	r.page.WriteString(configurationHead)
	r.section(t, "", reflect.ValueOf(defaultConfig()), true)
	return r.page.String()
}

type configReference struct {
	page     strings.Builder
	comments map[string]map[string]string // by package, then by Type or Type.Field
}

// key is one key of a section.
type key struct {
	path, comment string
	value         reflect.Value
}

// section writes the table of one mapping, then those of the mappings below it.
// The defaults of what is repeated are left out: there are none.
func (r *configReference) section(t *testing.T, path string, v reflect.Value, defaults bool) {
	if path != "" {
		depth := min(2+strings.Count(path, "."), 4)
		fmt.Fprintf(&r.page, "\n%s %s\n", strings.Repeat("#", depth), code(path))
		if about := r.comment(t, v.Type(), ""); about != "" {
			fmt.Fprintf(&r.page, "\n%s\n", strings.Replace(about, v.Type().Name(), code(path), 1))
		}
	}
	r.page.WriteString("\n" + header("key", "type", "default", "meaning"))
	keys := r.keys(t, path, v)
	for _, k := range keys {
		if k.comment == "" {
			t.Errorf("%s: the field that it is read into has no comment to say what it means", k.path)
		}
		fallback := ""
		switch {
		case k.path == "router.name":
			fallback = "the host's name"
		case defaults:
			fallback = defaultText(k.value)
		}
		r.page.WriteString(row(code(k.path), typeText(k.value.Type()), fallback, k.comment))
	}
	for _, k := range keys {
		switch {
		case k.value.Kind() == reflect.Struct:
			r.section(t, k.path, k.value, defaults)
		case k.value.Kind() == reflect.Slice && k.value.Type().Elem().Kind() == reflect.Struct:
			r.section(t, k.path+"[]", reflect.Zero(k.value.Type().Elem()), false)
		}
	}
}

// keys are those of a mapping in the order of its fields.
func (r *configReference) keys(t *testing.T, path string, v reflect.Value) (all []key) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
		case options == "inline":
			all = append(all, r.keys(t, path, v.Field(i))...)
		case name == "":
			t.Errorf("%s.%s has no yaml tag", v.Type(), field.Name)
		default:
			all = append(all, key{strings.TrimPrefix(path+"."+name, "."), r.comment(t, v.Type(), field.Name), v.Field(i)})
		}
	}
	return all
}

// comment is what the source says of a type, or of a field of it.
func (r *configReference) comment(t *testing.T, of reflect.Type, field string) string {
	found, ok := r.comments[of.PkgPath()]
	if !ok {
		found = comments(t, of.PkgPath())
		r.comments[of.PkgPath()] = found
	}
	if field != "" {
		return found[of.Name()+"."+field]
	}
	return found[of.Name()]
}

// comments are those of the struct types of a package of this module and of their
// fields: beside a field or, where there is none, above it.
func comments(t *testing.T, pkg string) map[string]string {
	t.Helper()
	found := map[string]string{}
	dir := filepath.Join("../..", strings.TrimPrefix(pkg, "github.com/spillway-llm/spillway/"))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source of %s in %s: %v", pkg, dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`yaml:"`).Match(text) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				named, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				fields, ok := named.Type.(*ast.StructType)
				if !ok {
					continue
				}
				found[named.Name.Name] = strings.TrimSpace(general.Doc.Text())
				for _, field := range fields.Fields.List {
					text := field.Comment.Text()
					if text == "" {
						text = field.Doc.Text()
					}
					for _, name := range field.Names {
						found[named.Name.Name+"."+name.Name] = text
					}
				}
			}
		}
	}
	return found
}

// typeText says what a key takes.
func typeText(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[feature.Seconds]():
		return "seconds"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "keys below it"
	case reflect.String:
		return "text"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list"
		}
		return "list of " + typeText(t.Elem())
	case reflect.Map:
		return typeText(t.Elem()) + " by name"
	}
	return strings.TrimPrefix(wanted(t), "a ")
}

// defaultText is a default as it would be written in the file.
func defaultText(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		text := d.String()
		if short, ok := strings.CutSuffix(text, "m0s"); ok {
			text = short + "m"
		}
		if short, ok := strings.CutSuffix(text, "h0m"); ok {
			text = short + "h"
		}
		return code(text)
	}
	switch v.Kind() {
	case reflect.Struct:
		return ""
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			return "none"
		}
	case reflect.String:
		if v.Len() == 0 {
			return "none"
		}
	case reflect.Float64:
		return code(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	}
	return code(fmt.Sprint(v.Interface()))
}
