package design_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/router/design"
)

var start = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

func plan() design.Switchback {
	return design.Switchback{
		Name: "spring", Start: start, Block: 15 * time.Minute, BurnIn: 5 * time.Minute, Pairs: 48, Seed: 7,
		Arms: [2]string{"token-load", "predicted"},
	}
}

// Walking through the blocks one by one is the slow way to find a moment's place.
func TestAtFindsTheBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := plan()
		s.Block = time.Duration(rapid.Int64Range(1_000_000, 5_000_000_000).Draw(t, "block")) * time.Microsecond
		s.BurnIn = time.Duration(rapid.Int64Range(0, int64(s.Block/time.Microsecond)/2).Draw(t, "burn-in")) * time.Microsecond
		s.Pairs, s.Seed = rapid.IntRange(1, 20).Draw(t, "pairs"), rapid.Uint64().Draw(t, "seed")
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		length := int64(s.Block) * int64(2*s.Pairs)
		at := s.Start.Add(time.Duration(rapid.Int64Range(-int64(s.Block), length+int64(s.Block)).Draw(t, "at")))
		got, ok := s.At(at)
		at = at.Truncate(time.Microsecond) // as rows tell it
		var want design.Place
		found := false
		began := s.Start
		for block := range 2 * s.Pairs {
			if end := began.Add(s.Block); !at.Before(began) && at.Before(end) {
				want = design.Place{Block: block, Arm: s.Arm(block), Into: at.Sub(began), Kept: !at.Before(began.Add(s.BurnIn))}
				found = true
			}
			began = began.Add(s.Block)
		}
		if ok != found || got != want {
			t.Fatalf("at %v: %+v, %v; want %+v, %v", at, got, ok, want, found)
		}
		if again, _ := s.At(at); again != got {
			t.Fatalf("the row's time %v gives %+v and the clock's %+v", at, again, got)
		}
		if !began.Equal(s.End()) {
			t.Fatalf("ends at %v, want %v", s.End(), began)
		}
	})
}

func TestEachArmHasOneBlockOfAPair(t *testing.T) {
	s := plan()
	s.Pairs = 4000
	first, same := 0, 0
	for pair := range s.Pairs {
		a, b := s.Arm(2*pair), s.Arm(2*pair+1)
		if a+b != 1 {
			t.Fatalf("pair %d has arms %d and %d", pair, a, b)
		}
		first += a
		if pair > 0 && a == s.Arm(2*pair-1) {
			same++
		}
	}
	for what, n := range map[string]int{"the second arm comes first": first, "an arm goes on across pairs": same} {
		if n < s.Pairs*45/100 || n > s.Pairs*55/100 {
			t.Errorf("%s in %d of %d pairs, want half", what, n, s.Pairs)
		}
	}
}

func TestOrderIsOfNameAndSeed(t *testing.T) {
	order := func(s design.Switchback) (bits string) {
		for pair := range 64 {
			bits += string(rune('0' + s.Arm(2*pair)))
		}
		return bits
	}
	s, other, named := plan(), plan(), plan()
	other.Seed++
	named.Name = "autumn"
	if order(s) == order(other) || order(s) == order(named) {
		t.Error("another seed or name has the same order")
	}
	// Written down once: routers of different builds must agree.
	if got, want := order(s)[:16], "0001000011001110"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

func TestTextIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z0-9_.,:=+/-]{1,64}`)
		s := design.Switchback{
			Name: name.Draw(t, "name"), Start: time.UnixMicro(rapid.Int64Range(1, 4e15).Draw(t, "start")).UTC(),
			Block: time.Duration(rapid.Int64Range(1e6, 3.6e9).Draw(t, "block")) * time.Microsecond,
			Pairs: rapid.IntRange(1, 1000).Draw(t, "pairs"), Seed: rapid.Uint64().Draw(t, "seed"),
			Arms: [2]string{name.Draw(t, "first") + "", name.Draw(t, "second")},
		}
		s.BurnIn = s.Block / 4
		if s.Arms[0] == s.Arms[1] {
			s.Arms = [2]string{"a", "b"}
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		got, _, err := design.Parse(s.String())
		if err != nil || *got != s {
			t.Fatalf("%s is read as %+v: %v", &s, got, err)
		}
		p := design.Split{Share: rapid.Float64Range(0.001, 0.999).Draw(t, "share"), Arms: s.Arms}
		_, again, err := design.Parse(p.String())
		if err != nil || *again != p {
			t.Fatalf("%s is read as %+v: %v", &p, again, err)
		}
	})
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for key, spoil := range map[string]func(*design.Switchback){
		"name: is empty":                 func(s *design.Switchback) { s.Name = "" },
		"name: \"a b\": want":            func(s *design.Switchback) { s.Name = "a b" },
		"name: \"canary\" stands for":    func(s *design.Switchback) { s.Name = "canary" },
		"start: is missing":              func(s *design.Switchback) { s.Start = time.Time{} },
		"start: want whole microseconds": func(s *design.Switchback) { s.Start = s.Start.Add(1) },
		"block: 500ms is too short":      func(s *design.Switchback) { s.Block = time.Second / 2 },
		"burn_in: 8m0s leaves less":      func(s *design.Switchback) { s.BurnIn = 8 * time.Minute },
		"burn_in: must not be negative":  func(s *design.Switchback) { s.BurnIn = -1 },
		"pairs: 0 is not":                func(s *design.Switchback) { s.Pairs = 0 },
		"block: with so many pairs":      func(s *design.Switchback) { s.Pairs, s.Block = design.MostPairs, 24*time.Hour },
		"arms: both are named":           func(s *design.Switchback) { s.Arms[1] = s.Arms[0] },
	} {
		s := plan()
		spoil(&s)
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("error %v, want %q", err, key)
		}
	}
	split := design.Canary(1, "predicted")
	if err := split.Check(); err == nil {
		t.Error("a canary of all requests is accepted")
	}
}

func FuzzParse(f *testing.F) {
	s, c := plan(), design.Canary(0.05, "predicted")
	f.Add(s.String())
	f.Add(c.String())
	f.Add("switchback name=a start=2026-12-01T09:00:00Z block=1s burn_in=0s pairs=1 seed=0 arms=a|b|c")
	f.Fuzz(func(t *testing.T, text string) {
		s, c, err := design.Parse(text)
		switch {
		case err != nil:
		case s != nil:
			if err := s.Check(); err != nil || s.String() != text {
				t.Errorf("%q is read as %s: %v", text, s, err)
			}
			if end := s.End(); !end.After(s.Start) {
				t.Errorf("%q ends at %v", text, end)
			}
		case c.Check() != nil || c.String() != text:
			t.Errorf("%q is read as %s", text, c)
		}
	})
}
