package policy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

var update = flag.Bool("update", false, "write the output of the scripts in testdata as it is now")

// TestScripts runs the stories in testdata. A script is commands, each
// followed by a line of dashes and what it prints up to an empty line:
//
//	endpoints              one endpoint a line, "NAME key=value...": cached,
//	                       cold (seconds ago), hot (tokens), steps (of its speed), standing,
//	                       ttft and tpot (its forecast, p90 20 % above), and any number
//	                       of its load by Go name. Known ones keep what is not
//	                       named; "NAME gone" removes one.
//	request key=value...   numbers of the request by Go name
//	settings key=value...  numbers of the settings by Go name
//	decide POLICY [fallback=NAME] [forecasts=false] [canary=SHARE] [seed=N] [turn=N]
//	terms POLICY ...       the same, with the terms of the costs
//
// Lines that begin with # between commands are kept.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got (rerun with -update when that is right):\n%s", diff)
			}
		})
	}
}

const dashes = "----"

// runScript returns the script with the output of every command as it is now.
func runScript(t *testing.T, text string) string {
	s := newStory()
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(block, "\n")
		from := slices.IndexFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "#") })
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		if from < 0 { // a remark of its own
			b.WriteString(block + "\n")
			continue
		}
		to := slices.Index(lines, dashes)
		if to < 0 {
			t.Fatalf("command %q has no line %s below it", lines[from], dashes)
		}
		output, err := s.run(lines[from], lines[from+1:to])
		if err != nil {
			t.Fatalf("%s: %v", lines[from], err)
		}
		fmt.Fprintf(&b, "%s\n%s\n%s", strings.Join(lines[:to], "\n"), dashes, output)
	}
	return b.String()
}

// story is the state that the commands of one script build up.
type story struct {
	in    *policy.Input
	wants map[string]*forecastWish
}

// forecastWish is the forecast that a script gives an endpoint. It becomes a
// residual at the decision, when the prior is known.
type forecastWish struct{ ttft, tpot float64 }

func newStory() *story {
	in := input("")
	in.Settings.Exploration = policy.Defaults().Exploration
	return &story{in: in, wants: map[string]*forecastWish{}}
}

func (s *story) run(command string, body []string) (string, error) {
	words := strings.Fields(command)
	switch words[0] {
	case "endpoints":
		for _, line := range body {
			if err := s.endpoint(strings.Fields(line)); err != nil {
				return "", err
			}
		}
		return "ok\n", nil
	case "request":
		return "ok\n", set(&s.in.Request, words[1:])
	case "settings":
		return "ok\n", set(&s.in.Settings, words[1:])
	case "decide", "terms":
		return s.decide(words[1], words[2:], words[0] == "terms")
	}
	return "", fmt.Errorf("no such command")
}

func (s *story) endpoint(words []string) error {
	name := words[0]
	at, known := slices.BinarySearchFunc(s.in.Candidates, name, func(c policy.Candidate, name string) int {
		return strings.Compare(c.Endpoint, name)
	})
	if len(words) == 2 && words[1] == "gone" {
		s.in.Candidates = slices.Delete(s.in.Candidates, at, at+1)
		delete(s.wants, name)
		return nil
	}
	if !known {
		s.in.Candidates = slices.Insert(s.in.Candidates, at, idle(name))
		s.wants[name] = &forecastWish{ttft: feature.Unknown, tpot: feature.Unknown}
	}
	c, wish := &s.in.Candidates[at], s.wants[name]
	for _, word := range words[1:] {
		key, text, _ := strings.Cut(word, "=")
		if key == "standing" {
			standing := slices.Index([]string{"good", "dated", "doubtful", "barred"}, text)
			if standing < 0 {
				return fmt.Errorf("endpoint %s: no standing %q", name, text)
			}
			c.Standing = policy.Standing(standing)
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("endpoint %s: %q is not key=number", name, word)
		}
		switch key {
		case "cached":
			c.CachedTokens = value
		case "cold":
			c.ColdAgo = feature.Seconds(value)
		case "hot":
			c.HotTokens = value
		case "steps":
			c.SpeedSteps = value
		case "ttft":
			wish.ttft = value
		case "tpot":
			wish.tpot = value
		default:
			if err := setNumber(&c.Load, key, value); err != nil {
				return fmt.Errorf("endpoint %s: %w", name, err)
			}
		}
	}
	return nil
}

func (s *story) decide(name string, options []string, terms bool) (string, error) {
	in := clone(s.in)
	in.Policy = name
	for _, option := range options {
		key, text, _ := strings.Cut(option, "=")
		var err error
		switch key {
		case "fallback":
			in.Fallback = text
		case "canary":
			in.Canary, err = strconv.ParseFloat(text, 64)
		case "forecasts":
			in.Forecasts, err = strconv.ParseBool(text)
		case "seed":
			in.Seed, err = strconv.ParseUint(text, 10, 64)
		case "turn":
			in.Turn, err = strconv.ParseUint(text, 10, 64)
		default:
			err = fmt.Errorf("no option %q", key)
		}
		if err != nil {
			return "", err
		}
	}
	for i := range in.Candidates {
		if wish := s.wants[in.Candidates[i].Endpoint]; !feature.IsUnknown(wish.ttft) {
			expect(in, i, wish.ttft, wish.tpot)
		}
	}
	var out policy.Choice
	if err := policy.Decide(in, &out); err != nil {
		return fmt.Sprintf("error: %v\n", err), nil
	}
	var b strings.Builder
	endpoint := "nobody"
	if out.Index >= 0 {
		endpoint = in.Candidates[out.Index].Endpoint
	}
	fmt.Fprintf(&b, "%s by %s: %s\n", endpoint, out.Policy, out.Reason)
	if out.Shed {
		fmt.Fprintf(&b, "  shed     %.4f  retry after %.2f s\n", out.ShedProbability, out.RetryAfter)
	}
	for i := range in.Candidates {
		fmt.Fprintf(&b, "  %-8s %.4f  cost %.6g", in.Candidates[i].Endpoint, out.Probabilities[i], out.Costs[i])
		if terms {
			x := out.Terms(in, i)
			fmt.Fprintf(&b, " = TTFT %.4g + output %.4g + eviction %.4g + headroom %.4g + crowding %.4g + prefill %.4g + queue %.4g + decode %.4g",
				x.TTFT, x.Output, x.Eviction, x.Headroom, x.Crowding, x.Prefill, x.Queue, x.Decode)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// set changes numbers of target, a pointer to a struct, by words like
// "PromptTokens=1000".
func set(target any, words []string) error {
	for _, word := range words {
		key, text, _ := strings.Cut(word, "=")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not Name=number", word)
		}
		if err := setNumber(target, key, value); err != nil {
			return err
		}
	}
	return nil
}

// setNumber changes the one number below target whose Go name is name.
func setNumber(target any, name string, value float64) error {
	found := 0
	numbers(reflect.ValueOf(target).Elem(), func(path string, number reflect.Value) {
		if strings.HasSuffix(path, "."+name) {
			number.SetFloat(value)
			found++
		}
	})
	if found != 1 {
		return fmt.Errorf("%d numbers are named %s, want 1", found, name)
	}
	return nil
}
