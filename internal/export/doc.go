// Package export writes decisions and their outcomes as files that other tools
// read, Parquet and CSV, and reads them back bit for bit. A row is one decision
// with its last attempt; docs/data.md says what each column means.
//
// Both formats are read and written as a stream, in bounded memory.
package export
