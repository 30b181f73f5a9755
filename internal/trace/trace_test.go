package trace_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spillway-llm/spillway/internal/trace"
)

const azure = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396
2023-11-16 18:15:50.9951690,many,109

2023-11-16 18:15:50.9951690,0,109
yesterday,1,1
2023-11-16 18:15:51.6805901,879,0`

const mooncake = `{"timestamp": 5, "input_length": 513, "output_length": 9, "hash_ids": [7, 18446744073709551615]}
{"timestamp": 6, "input_length": 513, "output_length": 9, "hash_ids": [7]}
{"timestamp": 6, "input_length": 5
{"timestamp": 6, "output_length": 9}
{"timestamp": 7.5, "input_length": 1, "output_length": 2}
`

func load(t *testing.T, text string) ([]trace.Item, trace.Report) {
	t.Helper()
	items, report, err := trace.Load(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return items, report
}

func TestAzure(t *testing.T) {
	items, report := load(t, azure)
	want := []trace.Item{
		{PromptTokens: 374, OutputTokens: 44, Line: 2},
		{At: 5*time.Second + 100, PromptTokens: 879, Line: 8},
	}
	if d := cmp.Diff(want, items); d != "" {
		t.Error(d)
	}
	broken := []*trace.LineError{
		{Line: 3, Reason: "2 columns, the header has more"},
		{Line: 4, Reason: `ContextTokens "many" is no whole number`},
		{Line: 6, Reason: "ContextTokens 0 is not between 1 and 10000000"},
		{Line: 7, Reason: `TIMESTAMP "yesterday" is no time like 2023-11-16 18:15:46.6805900`},
	}
	if d := cmp.Diff(trace.Report{Format: trace.AzureCSV, Broken: 4, FirstBroken: broken}, report); d != "" {
		t.Error(d)
	}
}

func TestAzureOf2024(t *testing.T) {
	items, _ := load(t, "\xEF\xBB\xBFGeneratedTokens,TIMESTAMP,ContextTokens\r\n7,2024-05-10 00:00:00.009930+00:00,8\r\n9,2024-05-10 00:00:01.009930+00:00,10\r\n")
	want := []trace.Item{{PromptTokens: 8, OutputTokens: 7, Line: 2}, {At: time.Second, PromptTokens: 10, OutputTokens: 9, Line: 3}}
	if d := cmp.Diff(want, items); d != "" {
		t.Error(d)
	}
}

func TestMooncake(t *testing.T) {
	items, report := load(t, mooncake)
	want := []trace.Item{
		{PromptTokens: 513, OutputTokens: 9, Blocks: []uint64{7, 1<<64 - 1}, BlockTokens: 512, Line: 1},
		{At: 2500 * time.Microsecond, PromptTokens: 1, OutputTokens: 2, Line: 5},
	}
	if d := cmp.Diff(want, items); d != "" {
		t.Error(d)
	}
	if report.Broken != 3 || report.FirstBroken[0].Reason != "1 hash_ids for an input_length of 513, want 2" ||
		report.FirstBroken[1].Line != 3 || report.FirstBroken[2].Reason != "input_length is missing" {
		t.Errorf("%+v", report)
	}
}

func TestLoadSortsByTimeAndKeepsFileOrder(t *testing.T) {
	var b strings.Builder
	for i, at := range []int{9, 3, 9, 3, 5} {
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":1}`+"\n", at, i+1)
	}
	items, _ := load(t, b.String())
	var got []string
	for _, item := range items {
		got = append(got, fmt.Sprint(item.At, item.PromptTokens))
	}
	if d := cmp.Diff([]string{"0s 2", "0s 4", "2ms 5", "6ms 1", "6ms 3"}, got); d != "" {
		t.Error(d)
	}
}

func TestLoadReadsGzip(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, mooncake)
	_ = z.Close()
	whole := b.Bytes()
	items, _, err := trace.Load(bytes.NewReader(whole))
	if err != nil || len(items) != 2 {
		t.Errorf("%d items, %v", len(items), err)
	}
	if _, _, err := trace.Load(bytes.NewReader(whole[:len(whole)-6])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut file: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "format not known",
		"a,b,c\n":            "format not known",
		"TIMESTAMP,Tokens\n": "trace has no usable line: trace line 1: expected a header",
		"TIMESTAMP,ContextTokens,GeneratedTokens\n": "trace has no requests",
		"{}\n{}\n": "trace has no usable line: trace line 1: timestamp is missing",
	} {
		if _, _, err := trace.Load(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	broken := errors.New("disk gone")
	if _, _, err := trace.Load(io.MultiReader(strings.NewReader(azure), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("reader's error: %v", err)
	}
}

func TestLongLines(t *testing.T) {
	ids := strings.TrimSuffix(strings.Repeat("1234567890,", 20_000), ",")
	fits := fmt.Sprintf(`{"timestamp":0,"input_length":%d,"output_length":1,"hash_ids":[%s]}`, 20_000*trace.MooncakeBlock, ids)
	long := `{"timestamp":0,"x":"` + strings.Repeat("x", trace.MaxLine) + `"}`
	items, report := load(t, `{"timestamp":0,"input_length":1,"output_length":1}`+"\n"+long+"\n"+`{"timestamp":9,"input_length":2,"output_length":1}`)
	if len(items) != 2 || report.Broken != 1 || report.FirstBroken[0].Line != 2 {
		t.Errorf("%v %+v", items, report)
	}
	// More tokens than any request has, but read as one line.
	_, _, err := trace.Load(strings.NewReader(fits))
	if err == nil || !strings.Contains(err.Error(), "input_length 10240000 is not between") {
		t.Errorf("%v", err)
	}
}

func TestIterationStopsEarly(t *testing.T) {
	n := 0
	for range trace.Azure(strings.NewReader(azure)) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Error(n)
	}
}

// TestPublicTraces reads the published files.
func TestPublicTraces(t *testing.T) {
	data := os.Getenv("SPILLWAY_DATA")
	if data == "" {
		t.Skip("SPILLWAY_DATA is not set: the public traces are not here")
	}
	for name, want := range map[string]int{
		"azure-2023-conv.csv.gz":                    19366,
		"azure-2023-code-first-half.csv.gz":         4409,
		"mooncake-conversation-first-half.jsonl.gz": 6015,
		"mooncake-synthetic.jsonl.gz":               3993,
	} {
		f, err := os.Open(filepath.Join(data, "traces", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		items, report, err := trace.Load(f)
		if err != nil || len(items) != want || report.Broken != 0 {
			t.Errorf("%s: %d items, want %d; %+v, %v", name, len(items), want, report, err)
		}
		if !slices.IsSortedFunc(items, func(a, b trace.Item) int { return int(a.At - b.At) }) {
			t.Errorf("%s: not sorted", name)
		}
	}
}

func fuzz(t *testing.T, text []byte, all func(func(trace.Item, error) bool)) {
	last := 0
	for item, err := range all {
		var broken *trace.LineError
		switch {
		case errors.As(err, &broken):
			item.Line = broken.Line
		case err != nil:
			t.Fatalf("%q: %v", text, err)
		case item.PromptTokens < 1 || item.OutputTokens < 0 || item.PromptTokens > trace.MaxTokens:
			t.Fatalf("%q: %+v", text, item)
		case item.Blocks != nil && len(item.Blocks)*item.BlockTokens < item.PromptTokens:
			t.Fatalf("%q: too few blocks in %+v", text, item)
		}
		if item.Line <= last {
			t.Fatalf("%q: line %d after %d", text, item.Line, last)
		}
		last = item.Line
	}
}

func FuzzAzure(f *testing.F) {
	f.Add([]byte(azure))
	f.Fuzz(func(t *testing.T, text []byte) { fuzz(t, text, trace.Azure(bytes.NewReader(text))) })
}

func FuzzMooncake(f *testing.F) {
	f.Add([]byte(mooncake))
	f.Fuzz(func(t *testing.T, text []byte) { fuzz(t, text, trace.Mooncake(bytes.NewReader(text))) })
}
