package featurestore

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
)

// The rows of featurestoretest cannot be had here: it imports this package.
func someRecord(rng *rand.Rand, candidates int) record {
	at := time.UnixMicro(rng.Int64N(4e15)).UTC()
	if rng.IntN(2) == 0 {
		o := feature.Outcome{Decision: feature.ID{byte(rng.Uint32())}, DecidedAt: at, Attempt: 1 + rng.IntN(2), Status: feature.OK,
			HTTPStatus: rng.IntN(600), TTFT: feature.Seconds(rng.Float64()), TPOT: feature.Seconds(feature.Unknown),
			CachedTokens: math.Copysign(0, -1), Endpoint: "http://e:1"}
		if rng.IntN(2) == 0 {
			o.FinishedAt = at.Add(time.Second)
		}
		return record{outcome: &o}
	}
	d := feature.Decision{ID: feature.ID{byte(rng.Uint32())}, DecidedAt: at, LLM: "qwen", Reason: "a\x00b", PolicyVersion: rng.IntN(9),
		Schema: feature.Schema, SLOTTFT: feature.Seconds(feature.Unknown), Priority: -1, Explored: true,
		Rest: rng.IntN(9), Epoch: rng.Uint64(), Seed: rng.Uint64(), States: []byte{}}
	if rng.IntN(2) == 0 {
		d.PromptDigest = []byte{0, 1, byte(rng.Uint32())}
		d.Experiment, d.Arm = "split share=0.05 arms=fallback|predicted", "predicted"
	}
	for range candidates {
		c := feature.Candidate{Endpoint: "http://e:2", Class: "h100", Forecast: feature.NoForecast, Cost: feature.Unknown, Probability: rng.Float64()}
		for i := range c.Vector {
			c.Vector[i] = rng.Float32()
		}
		d.Candidates = append(d.Candidates, c)
	}
	return record{decision: &d}
}

var sameRecords = cmp.Options{
	cmp.FilterValues(func(a, b []record) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
	cmp.AllowUnexported(record{}),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b feature.Seconds) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }),
}

func TestRecordRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r := someRecord(rng, rapid.IntRange(0, 40).Draw(t, "candidates"))
		b := r.append(nil)
		got, err := decodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got, sameRecords); diff != "" {
			t.Fatal(diff)
		}
		if n := r.size(); n < len(b)/2 || n > 2*len(b)+200 {
			t.Fatalf("size says %d, is %d", n, len(b))
		}
		if _, err := decodeRecord(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a record cut short was read")
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		f.Add(someRecord(rng, 2).append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		again, err := decodeRecord(r.append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.append(nil), again.append(nil)) {
			t.Fatal("a record changes when written and read again")
		}
	})
}

func FuzzSegment(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole := []byte(segmentMagic)
	for range 3 {
		whole = appendFrame(whole, someRecord(rng, 1))
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 1), content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSpool(dir, 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		drainSpool(t, s)
	})
}

// drainSpool replays everything, one to three rows at a time.
func drainSpool(t interface {
	Helper()
	Fatal(...any)
}, s *spool) (records []record, damaged int) {
	t.Helper()
	for i := 0; ; i++ {
		r, err := s.oldest(1 + i%3)
		if err != nil {
			t.Fatal(err)
		}
		if r.segment == nil {
			break
		}
		records = append(records, r.records...)
		lost, ok := s.done(r)
		if !ok {
			t.Fatal("the oldest segment is not the oldest")
		}
		damaged += lost + r.damaged
	}
	if bytes, rows := s.held(); bytes != 0 || rows != 0 {
		t.Fatal("an empty spool holds", bytes, "bytes and", rows, "rows")
	}
	return records, damaged
}

// A killed process leaves a segment that ends anywhere: all whole frames before
// that come back, in order, and nothing else.
func TestSpoolTornTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "spool")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s, err := openSpool(dir, 1<<20, false)
		if err != nil {
			t.Fatal(err)
		}
		var written []record
		var ends []int64
		for range rapid.IntRange(1, 6).Draw(t, "appends") {
			r := someRecord(rng, 1)
			if _, _, err := s.append([]record{r}); err != nil {
				t.Fatal(err)
			}
			written = append(written, r)
			size, _ := s.held()
			ends = append(ends, size)
		}
		s.close()
		cut := rapid.Int64Range(0, ends[len(ends)-1]).Draw(t, "cut")
		if err := os.Truncate(segmentPath(dir, 0), cut); err != nil {
			t.Fatal(err)
		}
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		if s, err = openSpool(dir, 1<<20, false); err != nil {
			t.Fatal(err)
		}
		defer s.close()
		if _, rows := s.held(); rows != whole {
			t.Fatalf("%d rows found, want %d", rows, whole)
		}
		later := someRecord(rng, 1) // written after the restart, read after the rest
		if _, _, err := s.append([]record{later}); err != nil {
			t.Fatal(err)
		}
		got, damaged := drainSpool(t, s)
		if diff := cmp.Diff(append(written[:whole:whole], later), got, sameRecords); diff != "" || damaged != 0 {
			t.Fatalf("%d damaged; %s", damaged, diff)
		}
	})
}

// A flipped bit costs its own row, is counted, and no other.
func TestSpoolDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		if _, _, err := s.append([]record{someRecord(rng, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	s.close()
	path := segmentPath(dir, 0)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(segmentMagic)+frameHeader+20] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = openSpool(dir, 1<<20, false); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	got, damaged := drainSpool(t, s)
	if len(got) != 4 || damaged != 1 {
		t.Errorf("%d rows and %d damaged, want 4 and 1", len(got), damaged)
	}
}

// Whatever is appended, the spool keeps its limit, and what comes back is the
// newest of it, in order, the rest counted.
func TestSpoolKeepsItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "spool")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		const limit = 20_000
		s, err := openSpool(dir, limit, false)
		if err != nil {
			t.Fatal(err)
		}
		var model []record // what the spool should hold
		var got []record
		dropped := 0
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				var batch []record
				for range rapid.IntRange(1, 8).Draw(t, "rows") {
					batch = append(batch, someRecord(rng, rng.IntN(4)))
				}
				kept, n, err := s.append(batch)
				if err != nil || kept != len(batch) {
					t.Fatalf("kept %d of %d: %v", kept, len(batch), err)
				}
				model = append(model, batch...)
				model = model[n:]
				dropped += n
			},
			"replay": func(t *rapid.T) {
				r, err := s.oldest(rapid.IntRange(1, 9).Draw(t, "n"))
				if err != nil || r.segment == nil {
					return
				}
				alike(t, model[:len(r.records)], r.records)
				if lost, ok := s.done(r); !ok || lost != 0 || r.damaged != 0 {
					t.Fatal("rows lost without a reason")
				}
				model = model[len(r.records):]
			},
			"restart": func(t *rapid.T) {
				// Replayed rows of a segment not yet finished come again.
				_, before := s.held()
				s.close()
				if s, err = openSpool(dir, limit, false); err != nil {
					t.Fatal(err)
				}
				got, _ = peek(s)
				if len(got) < before {
					t.Fatalf("%d rows after the restart, %d before", len(got), before)
				}
				alike(t, model, got[len(got)-before:])
				model = got
			},
			"": func(t *rapid.T) {
				bytes, rows := s.held()
				if bytes > limit || rows != len(model) {
					t.Fatalf("holds %d bytes and %d rows, limit %d and %d", bytes, rows, limit, len(model))
				}
				var onDisk int64
				paths, _ := filepath.Glob(filepath.Join(dir, "*.spool"))
				for _, path := range paths {
					if info, err := os.Stat(path); err == nil {
						onDisk += info.Size()
					}
				}
				if onDisk != bytes {
					t.Fatalf("%d bytes on disk, says %d", onDisk, bytes)
				}
			},
		})
		s.close()
	})
}

// alike fails unless both hold the same rows: quickly, by their bytes on disk,
// where they do.
func alike(t *rapid.T, want, got []record) {
	if slices.EqualFunc(want, got, func(a, b record) bool { return bytes.Equal(a.append(nil), b.append(nil)) }) {
		return
	}
	t.Fatalf("%s", cmp.Diff(want, got, sameRecords))
}

// peek reads all rows and forgets none.
func peek(s *spool) (records []record, err error) {
	for _, seg := range s.segments {
		err = seg.frames(func(payload []byte) bool {
			r, derr := decodeRecord(payload)
			if derr == nil {
				records = append(records, r)
			}
			return derr == nil
		}, func(error) {})
	}
	return records, err
}

// A disk that refuses a write costs the rows of that write, and leaves whole
// frames only.
func TestSpoolDiskFull(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(dir, 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	rng := rand.New(rand.NewPCG(1, 2))
	first, second, third := someRecord(rng, 1), someRecord(rng, 1), someRecord(rng, 1)
	if _, _, err := s.append([]record{first}); err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	good := s.file
	s.file = full
	if kept, _, err := s.append([]record{second}); err == nil || kept != 0 {
		t.Fatalf("kept %d, error %v", kept, err)
	}
	_ = good.Close()
	if _, _, err := s.append([]record{third}); err != nil {
		t.Fatal(err)
	}
	got, damaged := drainSpool(t, s)
	if diff := cmp.Diff([]record{first, third}, got, sameRecords); diff != "" || damaged != 0 {
		t.Errorf("%d damaged; %s", damaged, diff)
	}
}
