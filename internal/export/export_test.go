package export_test

import (
	"bytes"
	"encoding/csv"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
)

// bits compares floats by their bits, so that NaN equals itself.
var bits = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b feature.Seconds) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }),
}

// format is one of the two.
type format struct {
	name  string
	write func([]export.Row) ([]byte, error)
	read  func([]byte) iter.Seq2[export.Row, error]
}

type writer interface {
	Write(*export.Row) error
	Close() error
}

func writeAll(w writer, rows []export.Row) error {
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			return err
		}
	}
	return w.Close()
}

var formats = []format{
	{"csv", func(rows []export.Row) ([]byte, error) {
		var b bytes.Buffer
		w, err := export.NewCSV(&b)
		if err != nil {
			return nil, err
		}
		err = writeAll(w, rows)
		return b.Bytes(), err
	}, func(b []byte) iter.Seq2[export.Row, error] { return export.ReadCSV(bytes.NewReader(b)) }},
	{"parquet", func(rows []export.Row) ([]byte, error) {
		var b bytes.Buffer
		err := writeAll(export.NewParquet(&b), rows)
		return b.Bytes(), err
	}, func(b []byte) iter.Seq2[export.Row, error] {
		return export.ReadParquet(bytes.NewReader(b), int64(len(b)))
	}},
}

func number(rng *rand.Rand) float64 {
	switch rng.IntN(8) {
	case 0:
		return feature.Unknown
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return math.Inf(1)
	}
	return rng.ExpFloat64() * math.Pow(10, float64(rng.IntN(40)-20))
}

func seconds(rng *rand.Rand) feature.Seconds { return feature.Seconds(number(rng)) }

func word(rng *rand.Rand) string {
	words := []string{"", "qwen3-32b", "a,b", "say \"hi\"", "two\nlines", "ümläut", " spaced ", "10.0.0.1:8000"}
	return words[rng.IntN(len(words))]
}

func forecast(rng *rand.Rand) feature.Forecast {
	q := func() feature.Quantiles { return feature.Quantiles{P50: seconds(rng), P90: seconds(rng)} }
	l := func() feature.LogQuantiles { return feature.LogQuantiles{P50: number(rng), P90: number(rng)} }
	return feature.Forecast{TTFT: q(), TPOT: q(), Residual: feature.Residual{TTFT: l(), TPOT: l()}, Support: number(rng)}
}

func status(rng *rand.Rand) feature.Status {
	all := []feature.Status{"", feature.OK, feature.ClientAbort, feature.UpstreamError, feature.UpstreamTimeout, feature.Shed, feature.Lost}
	return all[rng.IntN(len(all))]
}

// made is a row of everything that a row may hold.
func made(rng *rand.Rand) export.Row {
	at := time.UnixMicro(1.7e15 + rng.Int64N(1e15)).UTC()
	var r export.Row
	r.Decision = feature.Decision{
		DecidedAt: at, LLM: word(rng), Router: word(rng), Mode: word(rng), Policy: word(rng), PolicyVersion: rng.IntN(9),
		Bundle: rng.Int64(), State: word(rng), Reason: word(rng), PromptTokens: number(rng), ExpectedOutputTokens: number(rng),
		SLOTTFT: seconds(rng), SLOTPOT: seconds(rng), Priority: rng.IntN(5) - 2, Chosen: word(rng), ChosenClass: word(rng),
		Propensity: number(rng), Explored: rng.IntN(2) == 0, Complete: rng.IntN(2) == 0, Rest: rng.IntN(200),
		RestCostMin: number(rng), RestCostMax: number(rng), Epoch: rng.Uint64(), Seed: rng.Uint64(),
	}
	for i := range r.Decision.ID {
		r.Decision.ID[i] = byte(rng.Uint32())
	}
	for i := range r.Decision.Schema {
		r.Decision.Schema[i] = byte(rng.Uint32())
	}
	for i := range r.Decision.ChosenVector {
		r.Decision.ChosenVector[i] = float32(number(rng))
	}
	r.Forecast, r.Corrected = forecast(rng), forecast(rng)
	r.Outcome = feature.Outcome{
		Decision: r.Decision.ID, DecidedAt: at, Attempt: rng.IntN(3), Status: status(rng), HTTPStatus: rng.IntN(600),
		TTFT: seconds(rng), TPOT: seconds(rng), E2E: seconds(rng), OutputTokens: number(rng), CachedTokens: number(rng),
		Endpoint: word(rng), CensoredAt: seconds(rng),
	}
	if n := rng.IntN(4); n > 0 {
		r.Decision.States = []byte{byte(rng.Uint32()), 0, 255}
		for range n {
			c := feature.Candidate{
				Endpoint: word(rng), Class: word(rng), Forecast: feature.NoForecast, Corrected: feature.NoForecast,
				Cost: number(rng), Probability: number(rng),
			}
			c.Corrected.TTFT.P50, c.Corrected.TPOT.P50 = seconds(rng), seconds(rng)
			for i := range c.Vector {
				c.Vector[i] = float32(number(rng))
			}
			r.Decision.Candidates = append(r.Decision.Candidates, c)
		}
	}
	if rng.IntN(3) > 0 {
		r.Outcome.FinishedAt = at.Add(time.Duration(rng.IntN(1e6)) * time.Microsecond)
	}
	return r
}

// Written rows are read back bit for bit, from both formats.
func TestRoundTrip(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				want := make([]export.Row, rapid.IntRange(0, 20).Draw(t, "rows"))
				for i := range want {
					want[i] = made(rng)
				}
				file, err := f.write(want)
				if err != nil {
					t.Fatal(err)
				}
				i := 0
				for got, err := range f.read(file) {
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want[i], got, bits); diff != "" {
						t.Fatalf("row %d (-want +got):\n%s", i, diff)
					}
					i++
				}
				if i != len(want) {
					t.Fatalf("%d rows of %d", i, len(want))
				}
			})
		})
	}
}

// A file may have several row groups, and a reader may stop in any of them.
func TestManyRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	few := []export.Row{made(rng), made(rng), made(rng)}
	rows := make([]export.Row, 0, 31000)
	for len(rows) < cap(rows) {
		rows = append(rows, few...)
	}
	file, err := formats[1].write(rows)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := export.ParquetRows(bytes.NewReader(file), int64(len(file))); err != nil || n != int64(len(rows)) {
		t.Errorf("%d rows are told of %d, %v", n, len(rows), err)
	}
	for _, broken := range [][]byte{nil, file[:100]} {
		if _, err := export.ParquetRows(bytes.NewReader(broken), int64(len(broken))); err == nil {
			t.Errorf("the rows of %d bytes were counted", len(broken))
		}
	}
	for _, stop := range []int{300, 30500} {
		n := 0
		for got, err := range formats[1].read(file) {
			if err != nil {
				t.Fatal(err)
			}
			if got.Decision.ID != few[n%3].Decision.ID {
				t.Fatalf("row %d is another", n)
			}
			if n++; n == stop {
				break
			}
		}
		if n != stop {
			t.Errorf("%d rows read, want %d", n, stop)
		}
	}
}

func TestWhatIsNoExport(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	strange := made(rng)
	strange.Outcome.Status = "banana"
	good, bad := map[string][]byte{}, map[string][]byte{}
	for _, f := range formats {
		whole := made(rng)
		for len(whole.Decision.Candidates) == 0 {
			whole = made(rng)
		}
		for row, to := range map[*export.Row]map[string][]byte{&whole: good, &strange: bad} {
			file, err := f.write([]export.Row{*row})
			if err != nil {
				t.Fatal(err)
			}
			to[f.name] = file
		}
	}
	type other struct {
		Decision string `parquet:"decision"`
	}
	var another bytes.Buffer
	if err := parquet.Write(&another, []other{{"x"}}); err != nil {
		t.Fatal(err)
	}
	text := string(good["csv"])
	for _, c := range []struct {
		name, format, file, says string
	}{
		{"empty", "csv", "", "no header"},
		{"other columns", "csv", "a,b\n1,2\n", "no column decision"},
		{"no number", "csv", strings.Replace(text, "\n", "\n"+strings.Repeat("x,", len(export.Columns())-1)+"x\n", 1), "line 2: column decision: \"x\""},
		{"no status", "csv", string(bad["csv"]), "column status: \"banana\": not a status"},
		{"no status", "parquet", string(bad["parquet"]), "row 1: column status: not a status"},
		{"no candidates", "csv", strings.Replace(text, "\"{\"\"endpoint", "\"{\"\"endpont", 1), "column candidates: "},
		{"short line", "csv", text + "x,y\n", "wrong number of fields"},
		{"empty", "parquet", "", "not a Parquet file"},
		{"text", "parquet", text, "not a Parquet file"},
		{"cut", "parquet", string(good["parquet"][:200]), "not a Parquet file"},
		{"other columns", "parquet", another.String(), "no column"},
	} {
		var got error
		for _, f := range formats {
			if f.name != c.format {
				continue
			}
			for _, err := range f.read([]byte(c.file)) {
				got = err
			}
		}
		if got == nil || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%s, %s: %v, want %q", c.format, c.name, got, c.says)
		}
	}
}

// Files of before there were columns of candidates are read as without them.
func TestFilesWithoutCandidates(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	want := make([]export.Row, 5)
	for i := range want {
		want[i] = made(rng)
		want[i].Decision.Candidates, want[i].Decision.States = nil, nil
	}
	file, err := formats[0].write(want)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(file)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var old bytes.Buffer
	w := csv.NewWriter(&old)
	for _, line := range lines {
		if err := w.Write(line[:len(line)-3]); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	i := 0
	for got, err := range export.ReadCSV(&old) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i], got, bits); diff != "" {
			t.Fatalf("row %d (-want +got):\n%s", i, diff)
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("%d rows of %d", i, len(want))
	}
}

// docs/data.md tells of every column, with its unit, and of no other.
func TestColumnsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/data.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) >= 4 && strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			told[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2])
		}
	}
	for _, c := range export.Columns() {
		if got, ok := told[c.Name]; !ok || got != c.Unit {
			t.Errorf("docs/data.md: want a row | `%s` | %s | %s |, got unit %q", c.Name, c.Unit, c.Says, got)
		}
		delete(told, c.Name)
	}
	for name := range told {
		t.Errorf("docs/data.md: there is no column %s", name)
	}
}

func FuzzReadCSV(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	file, err := formats[0].write([]export.Row{made(rng), made(rng)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Fuzz(func(t *testing.T, file []byte) { readAgain(t, formats[0], file) })
}

func FuzzReadParquet(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	file, err := formats[1].write([]export.Row{made(rng), made(rng)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Fuzz(func(t *testing.T, file []byte) { readAgain(t, formats[1], file) })
}

// readAgain reads what may be anything: never a panic, and what is read can be
// written and read again the same.
func readAgain(t *testing.T, f format, file []byte) {
	var rows []export.Row
	for row, err := range f.read(file) {
		if err != nil {
			return
		}
		if rows = append(rows, row); len(rows) > 1000 {
			return
		}
	}
	again, err := f.write(rows)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for row, err := range f.read(again) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rows[i], row, bits); diff != "" {
			t.Fatalf("row %d (-want +got):\n%s", i, diff)
		}
		i++
	}
	if i != len(rows) {
		t.Fatalf("%d rows of %d", i, len(rows))
	}
}
