package export

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// oneGroup is a Parquet file of which a single row group is seen. What the library
// keeps of every group of a file is eight times as large as what the file says of
// it, and would grow with the file.
type oneGroup struct {
	file   io.ReaderAt
	data   int64  // bytes of the file before its footer
	footer []byte // that tells of this group alone, with the length and the magic behind it
}

// groupsOf splits a file of size bytes.
func groupsOf(r io.ReaderAt, size int64, file *parquet.File) ([]oneGroup, error) {
	var end [4]byte // length of the footer, which OpenFile has read
	if _, err := r.ReadAt(end[:], size-8); err != nil {
		return nil, err
	}
	data := size - 8 - int64(binary.LittleEndian.Uint32(end[:]))
	var all []oneGroup
	for i := range file.Metadata().RowGroups {
		m := *file.Metadata()
		m.RowGroups = slices.Clone(m.RowGroups[i : i+1])
		m.RowGroups[0].Ordinal = 0
		m.NumRows = m.RowGroups[0].NumRows
		footer, err := thrift.Marshal(new(thrift.CompactProtocol), &m)
		if err != nil {
			return nil, err
		}
		footer = append(binary.LittleEndian.AppendUint32(footer, uint32(len(footer))), "PAR1"...)
		all = append(all, oneGroup{r, data, footer})
	}
	return all, nil
}

// ReadAt reads the file's own bytes, and behind them the footer.
func (g *oneGroup) ReadAt(p []byte, at int64) (n int, err error) {
	if own := g.data - at; own > 0 {
		n, err = g.file.ReadAt(p[:min(own, int64(len(p)))], at)
		if n == len(p) || err != nil {
			return n, err
		}
	}
	from := at + int64(n) - g.data
	if from < 0 || from > int64(len(g.footer)) {
		return n, io.EOF
	}
	if n += copy(p[n:], g.footer[from:]); n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (g *oneGroup) size() int64 { return g.data + int64(len(g.footer)) }
