// Package migration holds the numbered SQL that makes and changes the schema
// of the store. Migrations go forward only and add before they take away, so
// that a running older binary keeps working while a newer one migrates.
package migration

import "embed"

// Files holds the migrations, in goose's format, named NNNNN_what.sql.
//
//go:embed *.sql
var Files embed.FS
