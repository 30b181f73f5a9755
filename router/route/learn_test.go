package route_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// tokens is a request of so many prompt tokens without a prefix.
func tokens(n int) *route.Query {
	q := query("")
	q.Prompt, q.PromptBytes, q.PromptTokens = nil, 0, n
	return q
}

// expected is the output length expected of q.
func (w *world) expected(t testing.TB, q *route.Query) float64 {
	t.Helper()
	ticket := w.begin(t, q)
	ticket.End(ended(feature.ClientAbort, 0))
	return w.memory.decision(ticket).ExpectedOutputTokens
}

func TestExpectedOutputFollowsRequestsOfThatLength(t *testing.T) {
	w := newWorld(t, 1, nil)
	if got := w.expected(t, tokens(1000)); got != 500 {
		t.Errorf("before anything was seen %v output tokens are expected, want 500", got)
	}
	for range 200 {
		w.begin(t, tokens(1000)).End(served(1000, 100))
		w.begin(t, tokens(9000)).End(served(9000, 700))
	}
	limited := tokens(9000)
	limited.MaxOutputTokens = 64
	none := tokens(1000)
	none.MaxOutputTokens = 0
	for what, c := range map[string]struct {
		q    *route.Query
		want float64
	}{
		"short":                 {tokens(900), 100},
		"long":                  {tokens(10_000), 700},
		"shorter than any seen": {tokens(10), 100},
		"longer than any seen":  {tokens(100_000), 700},
		"limited":               {limited, 64},
		"limited to nothing":    {none, 1},
	} {
		if got := w.expected(t, c.q); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v expected, want %v", what, got, c.want)
		}
	}
	for range 200 {
		w.begin(t, tokens(1000)).End(served(1000, 300)) // traffic changes
	}
	if got := w.expected(t, tokens(1000)); math.Abs(got-300) > 1 {
		t.Errorf("%v expected after 200 answers of 300", got)
	}
}

func TestSeveralCompletionsTeachTheLengthOfOne(t *testing.T) {
	w := newWorld(t, 1, nil)
	q := tokens(1000)
	q.Completions = 4
	w.begin(t, q).End(served(1000, 400))
	if got := w.expected(t, tokens(1000)); got != 100 {
		t.Errorf("%v expected after 4 completions of 400 tokens together, want 100", got)
	}
}

func TestOutputThatIsNoLengthTeachesNothing(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.begin(t, tokens(1000)).End(served(1000, 100))
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1, 1e18} {
		w.begin(t, tokens(1000)).End(served(1000, bad))
	}
	failed := served(1000, 3)
	failed.Status = feature.ClientAbort
	w.begin(t, tokens(1000)).End(failed) // what an abort cut off is no length
	if got := w.expected(t, tokens(1000)); got != 100 {
		t.Errorf("%v expected, want 100", got)
	}
}

func TestTokensPerByteAreLearned(t *testing.T) {
	w := newWorld(t, 1, nil)
	estimate := func() float64 {
		ticket := w.begin(t, query("x")) // 4,000 bytes
		ticket.End(ended(feature.ClientAbort, 0))
		return w.memory.decision(ticket).PromptTokens
	}
	if got := estimate(); got != 1000 {
		t.Errorf("%v tokens in 4,000 bytes, want 1000 by default", got)
	}
	for range 300 {
		w.begin(t, query("x")).End(served(1600, 10))
	}
	if got := estimate(); math.Abs(got-1600) > 10 {
		t.Errorf("%v tokens in 4,000 bytes after 300 prompts of 1,600", got)
	}
	image := query("x")
	image.PromptTokens = 800
	for range 300 { // images and token ids say nothing of text
		w.begin(t, image).End(served(9000, 10))
		w.begin(t, tokens(1000)).End(served(9000, 10))
		w.begin(t, query("x")).End(served(math.NaN(), 10))
	}
	if got := estimate(); math.Abs(got-1600) > 10 {
		t.Errorf("%v tokens in 4,000 bytes after images and token ids", got)
	}
}

func TestOffsetOfAnEndpointCorrectsItsForecasts(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		for i := range 200 { // e000 takes 1.3 times what the bundle says
			ticket := w.begin(t, query(fmt.Sprint(i)))
			end := served(1000, 100)
			d := w.memory.decision(ticket)
			for _, c := range d.Candidates {
				if c.Endpoint == d.Chosen {
					end.TTFT, end.TPOT = c.Forecast.TTFT.P50, c.Forecast.TPOT.P50
				}
			}
			if d.Chosen == id(0) {
				end.TTFT *= 1.3
			}
			ticket.End(end)
		}
		d := w.memory.decision(w.begin(t, query("then")))
		for i, want := range []float64{1.3, 1} {
			c := d.Candidates[i]
			if got := float64(c.Corrected.TTFT.P50 / c.Forecast.TTFT.P50); math.Abs(got/want-1) > 0.1 {
				t.Errorf("%s: TTFT corrected by %.3f, want about %v", c.Endpoint, got, want)
			}
			if got := float64(c.Corrected.TPOT.P50 / c.Forecast.TPOT.P50); math.Abs(got-1) > 0.01 {
				t.Errorf("%s: TPOT corrected by %.3f, and it was right", c.Endpoint, got)
			}
		}
	})
}

func TestSpeedOfAnEndpointIsLearnedFromItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		defer w.run()()
		ticket := w.begin(t, query("x"))
		ticket.Sent(time.Now())
		ticket.FirstToken(time.Now())
		step := time.Duration(3 * float64(time.Second) * float64(class.Coefficients.Step(1, 1000)))
		for range int(2 * time.Minute / step) { // three times slower than its class
			<-time.After(step)
			ticket.Tokens(1, time.Now())
		}
		// 30 s of fading evidence for 3, shrunk by 10 s of it for 1.
		if f := w.Status().Endpoints[0].SpeedFactor; f < 1.9 || f > 2.1 {
			t.Errorf("speed factor %v, want (30+10)/(10+10)", f)
		}
		if w.fleet.only(id(0), func(e *pool.State) { e.Incarnation = 99 }); w.Status().Endpoints[0].SpeedFactor != 1 {
			t.Error("a new life begins with the speed of the last")
		}
	})
}

// An endpoint that hangs shows no steps and ends no request: that it is slow
// must be seen all the same.
func TestAnEndpointThatHangsIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		defer w.run()()
		ticket := w.begin(t, query("x"))
		ticket.Sent(time.Now())
		ticket.FirstToken(time.Now())
		<-time.After(30 * time.Second)
		if f := w.Status().Endpoints[0].SpeedFactor; f < 3 {
			t.Errorf("speed factor %v after 30 s without a step, want at least 3", f)
		}
		ticket.End(ended(feature.ClientAbort, 0))
		<-time.After(2 * time.Second)
		if f := w.Status().Endpoints[0].SpeedFactor; f != 1 {
			t.Errorf("speed factor %v when nothing waits any more, want 1", f)
		}
	})
}

func TestARequestThatWaitsPastItsP90IsAMissNow(t *testing.T) {
	inLive(t, 1, nil, func(t *testing.T, w *world) {
		p90 := func() feature.Seconds {
			ticket := w.begin(t, query("then"))
			defer ticket.End(ended(feature.ClientAbort, 0))
			c := w.memory.decision(ticket).Candidates[0]
			return c.Corrected.TTFT.P90 / c.Forecast.TTFT.P90
		}
		for range 40 { // so many that a p90 is moved at all
			ticket := w.begin(t, query("now"))
			as := served(1000, 100)
			as.TTFT = w.memory.decision(ticket).Candidates[0].Forecast.TTFT.P50
			ticket.End(as)
		}
		before := p90()
		var hung []*route.Ticket
		for i := range 5 {
			q := query(fmt.Sprint("hangs", i))
			q.Streaming = true
			hung = append(hung, w.begin(t, q))
		}
		<-time.After(2 * time.Minute)
		during := p90()
		for _, ticket := range hung {
			late := served(1000, 100)
			late.TTFT = 120
			ticket.End(late)
		}
		for i := range hung { // the same load again
			ticket := w.begin(t, query(fmt.Sprint("new", i)))
			defer ticket.End(ended(feature.ClientAbort, 0))
		}
		if after := p90(); !(during > before) || after < during*0.999 {
			t.Errorf("the p90 was moved by %v before, %v while five requests hung, %v after", before, during, after)
		}
	})
}

// TestAutoFallbackFollowsThePrefillUtilisation sends prefill work at a steady
// share of the peak and looks at who decides.
func TestAutoFallbackFollowsThePrefillUtilisation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		w.oracle.set(fails(route.ErrUntrained))
		perSecond := 2 * class.PeakPrefillThroughput
		load := func(share float64, seconds int) (by string) {
			for range seconds {
				pass(time.Second)
				w.fleet.scrape()
				ticket := w.begin(t, tokens(int(share*perSecond)))
				by = ticket.Policy()
				ticket.End(served(float64(int(share*perSecond)), 100))
			}
			return by
		}
		for _, c := range []struct {
			share   float64
			seconds int
			want    string
		}{
			{0.30, 9, policy.CombinedLoad}, // no ten seconds have been seen
			{0.30, 70, policy.ActiveRequest},
			{0.45, 120, policy.ActiveRequest}, // above 0.40, within the 20 %
			{0.60, 120, policy.TokenLoad},
			{0.35, 120, policy.TokenLoad}, // below 0.40, within the 20 %
			{0.20, 120, policy.ActiveRequest},
		} {
			if by := load(c.share, c.seconds); by != c.want {
				t.Errorf("%s decides at a utilisation of %v, want %s", by, c.share, c.want)
			}
		}
		if s := w.Status().LLMs[0]; s.Fallback != policy.ActiveRequest {
			t.Errorf("the status names %s", s.Fallback)
		}
	})
}

func TestCapacityHeardLateReachesThePrefixIndex(t *testing.T) {
	w := newWorld(t, 1, func(c *route.Config) { c.Policy = policy.TokenLoad })
	held := func() float64 {
		ticket := w.begin(t, query("prefix"))
		ticket.End(ended(feature.ClientAbort, 0))
		return float64(w.memory.decision(ticket).ChosenVector[feature.ColumnCachedTokens])
	}
	held()
	if got := held(); got != 15*64 {
		t.Errorf("%v tokens held of 4,000 bytes, want 15 blocks of 64", got)
	}
	w.fleet.only(id(0), func(e *pool.State) { e.KVCapacityTokens = 320 })
	if got := held(); got != 5*64 {
		t.Errorf("%v tokens held in a cache of 320", got)
	}
}
