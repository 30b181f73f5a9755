package export

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/spillway-llm/spillway/internal/feature"
)

// groupRows is how many rows a row group has at most, and groupBytes how much of
// candidates: a writer holds that in memory, compressed to an eighth or so. Smaller
// groups would cost whoever reads, who holds some 10 KiB for each group of a file;
// of the group that is being read it holds a page of each column.
const (
	groupRows  = 30_000
	groupBytes = 512 << 20 // the least that Parquet's own documentation asks for
)

// batchRows is how many rows are read at once.
const batchRows = 256

// Parquet writes rows as Parquet, compressed with zstd. Unknown numbers and
// times are nulls; times count microseconds in UTC.
type Parquet struct {
	w      *parquet.GenericWriter[any]
	places []int // of each of columns in the file, which orders them by name
	row    []parquet.Row
	bytes  int // of candidates in the row group so far
}

// NewParquet begins a file.
func NewParquet(w io.Writer) *Parquet {
	group := parquet.Group{}
	for i := range columns {
		group[columns[i].Name] = parquet.Compressed(nodeOf(columns[i].at(new(Row))), &parquet.Zstd)
	}
	schema := parquet.NewSchema("decision", group)
	options := []parquet.WriterOption{schema, parquet.MaxRowsPerRowGroup(groupRows)}
	for i := range columns {
		if isLarge(columns[i].at(new(Row))) {
			options = append(options, parquet.SkipPageBounds(columns[i].Name))
		}
	}
	p := &Parquet{
		w:      parquet.NewGenericWriter[any](w, options...),
		places: make([]int, len(columns)),
		row:    []parquet.Row{make(parquet.Row, len(columns))},
	}
	for i := range columns {
		leaf, _ := schema.Lookup(columns[i].Name)
		p.places[i] = leaf.ColumnIndex
	}
	return p
}

// Write adds a row.
func (p *Parquet) Write(r *Row) error {
	for i := range columns {
		p.row[0][p.places[i]] = valueOf(columns[i].at(r), p.places[i])
	}
	if _, err := p.w.WriteRows(p.row); err != nil {
		return err
	}
	const candidate = 200 // about, of the table
	if p.bytes += len(r.Decision.States) + len(r.Decision.Candidates)*(feature.VectorSize+candidate); p.bytes < groupBytes {
		return nil
	}
	p.bytes = 0
	return p.w.Flush()
}

// Close ends the file; the writer below it stays open.
func (p *Parquet) Close() error { return p.w.Close() }

func nodeOf(at any) parquet.Node {
	switch at.(type) {
	case *float64, *feature.Seconds:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case *float32:
		return parquet.Optional(parquet.Leaf(parquet.FloatType))
	case *int, *int64:
		return parquet.Int(64)
	case *uint64:
		return parquet.Uint(64)
	case *bool:
		return parquet.Leaf(parquet.BooleanType)
	case *time.Time:
		return parquet.Optional(parquet.Timestamp(parquet.Microsecond))
	case *candidateVectors, *[]byte:
		return parquet.Leaf(parquet.ByteArrayType)
	}
	return parquet.String()
}

// isLarge reports whether the least and greatest value of a column, which a file
// tells of every row group, are long and tell nothing.
func isLarge(at any) bool {
	switch at.(type) {
	case *candidateTable, *candidateVectors, *[]byte:
		return true
	}
	return false
}

func valueOf(at any, column int) parquet.Value {
	known := func(v parquet.Value, is bool) parquet.Value {
		if !is {
			return parquet.NullValue().Level(0, 0, column)
		}
		return v.Level(0, 1, column)
	}
	switch p := at.(type) {
	case *float64:
		return known(parquet.DoubleValue(*p), *p == *p)
	case *feature.Seconds:
		return known(parquet.DoubleValue(float64(*p)), *p == *p)
	case *float32:
		return known(parquet.FloatValue(*p), *p == *p)
	case *time.Time:
		return known(parquet.Int64Value(p.UnixMicro()), !p.IsZero())
	case *int:
		return parquet.Int64Value(int64(*p)).Level(0, 0, column)
	case *int64:
		return parquet.Int64Value(*p).Level(0, 0, column)
	case *uint64:
		return parquet.Int64Value(int64(*p)).Level(0, 0, column)
	case *bool:
		return parquet.BooleanValue(*p).Level(0, 0, column)
	case *candidateVectors:
		return parquet.ByteArrayValue(p.bytes()).Level(0, 0, column)
	case *[]byte:
		return parquet.ByteArrayValue(*p).Level(0, 0, column)
	}
	return parquet.ByteArrayValue([]byte(textOf(at))).Level(0, 0, column)
}

// setValue sets a value from what valueOf made. The column has the kind of it.
func setValue(at any, v parquet.Value) error {
	switch p := at.(type) {
	case *float64:
		*p = feature.Unknown
		if !v.IsNull() {
			*p = v.Double()
		}
	case *feature.Seconds:
		*p = feature.Seconds(feature.Unknown)
		if !v.IsNull() {
			*p = feature.Seconds(v.Double())
		}
	case *float32:
		*p = float32(feature.Unknown)
		if !v.IsNull() {
			*p = v.Float()
		}
	case *time.Time:
		*p = time.Time{}
		if !v.IsNull() {
			*p = time.UnixMicro(v.Int64()).UTC()
		}
	default:
		if v.IsNull() {
			return errors.New("a null, where a value must be")
		}
		return setKnown(at, v)
	}
	return nil
}

// setKnown is setValue of what is never null.
func setKnown(at any, v parquet.Value) error {
	switch p := at.(type) {
	case *int:
		if *p = int(v.Int64()); int64(int32(v.Int64())) != v.Int64() {
			return fmt.Errorf("%d: %w", v.Int64(), strconv.ErrRange)
		}
	case *int64:
		*p = v.Int64()
	case *uint64:
		*p = uint64(v.Int64())
	case *bool:
		*p = v.Boolean()
	case *candidateTable:
		return p.setText(v.ByteArray())
	case *candidateVectors:
		return p.setBytes(v.ByteArray())
	case *[]byte:
		return setBytes(p, slices.Clone(v.ByteArray()))
	default:
		return setText(at, string(v.ByteArray()))
	}
	return nil
}

// ParquetRows is how many rows a file has that Parquet wrote, of size bytes.
func ParquetRows(r io.ReaderAt, size int64) (rows int64, err error) {
	defer func() {
		if broken := recover(); broken != nil { // see readParquet
			err = fmt.Errorf("not a Parquet file, or a broken one: %v", broken)
		}
	}()
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return 0, fmt.Errorf("not a Parquet file, or a broken one: %w", err)
	}
	return file.NumRows(), nil
}

// ReadParquet reads what Parquet wrote, of size bytes. Other columns may stand
// beside its own. An error ends the sequence.
func ReadParquet(r io.ReaderAt, size int64) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		stopped := false
		err := readParquet(r, size, func(row Row) bool {
			stopped = !yield(row, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(Row{}, err)
		}
	}
}

func readParquet(r io.ReaderAt, size int64, yield func(Row) bool) (err error) {
	inYield := false
	defer func() {
		// The library panics on some broken files. What the caller's loop does
		// is not its fault.
		if inYield {
			return
		}
		if broken := recover(); broken != nil {
			err = fmt.Errorf("not a Parquet file, or a broken one: %v", broken)
		}
	}()
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("not a Parquet file, or a broken one: %w", err)
	}
	owners := map[int]int{} // of a column of the file: which of columns it is
	for i := range columns {
		leaf, ok := file.Schema().Lookup(columns[i].Name)
		if !ok && columns[i].later() {
			continue
		}
		if !ok {
			return missing(columns[i].Name)
		}
		at := columns[i].at(new(Row))
		got, want := leaf.Node.Type(), nodeOf(at).Type()
		_, isTime := at.(*time.Time)
		if leaf.MaxRepetitionLevel > 0 || got.Kind() != want.Kind() || isTime && got.String() != want.String() {
			return fmt.Errorf("column %s is of type %s, want %s", columns[i].Name, got, want)
		}
		owners[leaf.ColumnIndex] = i
	}
	groups, err := groupsOf(r, size, file)
	if err != nil {
		return fmt.Errorf("not a Parquet file, or a broken one: %w", err)
	}
	file = nil // large, and not needed any more
	batch := make([]parquet.Row, batchRows)
	at := 1
	for i := range groups {
		one, err := parquet.OpenFile(&groups[i], groups[i].size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if err != nil {
			return fmt.Errorf("not a Parquet file, or a broken one: %w", err)
		}
		rows := one.RowGroups()[0].Rows()
		for {
			n, err := rows.ReadRows(batch)
			for _, values := range batch[:n] {
				var row Row
				for _, v := range values {
					i, ours := owners[v.Column()]
					if !ours {
						continue
					}
					if err := setValue(columns[i].at(&row), v); err != nil {
						return errors.Join(fmt.Errorf("row %d: column %s: %w", at, columns[i].Name, err), rows.Close())
					}
				}
				row.join()
				inYield = true
				more := yield(row)
				inYield = false
				if !more {
					return rows.Close()
				}
				at++
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return errors.Join(fmt.Errorf("row %d: %w", at, err), rows.Close())
			}
			if n == 0 {
				return errors.Join(fmt.Errorf("row %d: a row group ends early", at), rows.Close())
			}
		}
		if err := rows.Close(); err != nil {
			return err
		}
	}
	return nil
}
