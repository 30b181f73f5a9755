// Protogen makes proto/gen from proto/*/*/*.proto. It compiles the files
// itself and runs the protoc plugins that tools/go.mod pins, so it needs
// nothing but the Go toolchain, and the same sources give the same bytes
// everywhere.
//
// Run it in the tools folder:
//
//	go run ./protogen          writes what differs
//	go run ./protogen -check   exits 1 when something differs
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	root   = ".." // of the product, from the tools folder
	module = "github.com/spillway-llm/spillway"
	target = "proto/gen"
)

var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 when the committed files are out of date")
	flag.Parse()
	if err := run(context.Background(), *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	names, err := sources(filepath.Join(root, "proto"))
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{filepath.Join(root, "proto")}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("module=" + module),
		ProtoFile:      descriptors(files),
	}
	made := map[string]string{}
	for _, plugin := range plugins {
		if err := generate(ctx, plugin, request, made); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return reconcile(made, check)
}

// sources lists the .proto files under dir, relative to it, in order.
func sources(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".proto" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	slices.Sort(names)
	return names, err
}

// descriptors returns the files and what they import, imports first.
func descriptors(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		add(f)
	}
	return all
}

// generate runs one plugin and adds the files that it makes to made, by their
// path from the root.
func generate(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest, made map[string]string) error {
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.File {
		if !strings.HasPrefix(f.GetName(), target+"/") {
			return fmt.Errorf("file %s lies outside %s: look at its go_package", f.GetName(), target)
		}
		made[f.GetName()] = f.GetContent()
	}
	return nil
}

// reconcile makes the target folder hold what was made and nothing else, or
// with check says what would have to change.
func reconcile(made map[string]string, check bool) error {
	var differ []string
	for name, content := range made {
		have, err := os.ReadFile(filepath.Join(root, name))
		if err == nil && string(have) == content {
			continue
		}
		differ = append(differ, name)
	}
	stale, err := leftOver(made)
	if err != nil {
		return err
	}
	if check {
		if differ = append(differ, stale...); len(differ) > 0 {
			slices.Sort(differ)
			return fmt.Errorf("out of date: %s; run go generate ./proto/...", strings.Join(differ, ", "))
		}
		return nil
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, name := range differ {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(made[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// leftOver lists generated files that nothing makes any more.
func leftOver(made map[string]string) ([]string, error) {
	var stale []string
	dir := filepath.Join(root, target)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !strings.HasSuffix(path, ".pb.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if name = filepath.ToSlash(name); made[name] == "" {
			stale = append(stale, name)
		}
		return err
	})
	return stale, err
}
