// Package proto holds the wire contracts; the Go made from them stands in
// proto/gen and is committed. The plugins are pinned in tools/go.mod.
package proto

//go:generate go run -C ../tools ./protogen
