package tracing

// Span is one that has begun. One goroutine uses it.
type Span struct{ recorder Recorder }

func spanOf(r Recorder) *Span {
	if r == nil {
		return nil
	}
	return &Span{r}
}

// Keys of attributes.
const (
	KeyLLM        = "spillway.llm"
	KeyPolicy     = "spillway.policy"
	KeyEndpoint   = "spillway.endpoint"
	KeyCandidates = "spillway.candidates" // of a decision; of a forecast, those asked about
	KeyState      = "spillway.state"      // of forecasts: live, or another in which they do not decide
	KeyFallback   = "spillway.fallback"   // why forecasts did not decide; absent where they did
	KeyReason     = "spillway.reason"     // of the decision
	KeyDecision   = "spillway.decision"   // its id
	KeyBundle     = "spillway.bundle"
	KeyAPI        = "spillway.api"
	KeyStatus     = "spillway.status" // how the request ended
	KeyTTFT       = "spillway.ttft"   // seconds
	KeyTPOT       = "spillway.tpot"   // seconds
	KeyOutput     = "spillway.output_tokens"
	KeyError      = "error.type" // of a closed set
	KeyHTTPStatus = "http.response.status_code"
)

// Keys lists all of them: no other attribute is told to anyone.
var Keys = []string{
	KeyLLM, KeyPolicy, KeyEndpoint, KeyCandidates, KeyState, KeyFallback, KeyReason, KeyDecision, KeyBundle,
	KeyAPI, KeyStatus, KeyTTFT, KeyTPOT, KeyOutput, KeyError, KeyHTTPStatus,
}

// Text sets an attribute.
func (s *Span) Text(key, value string) {
	if s != nil {
		s.recorder.Text(key, value)
	}
}

// Count sets an attribute that is a whole number.
func (s *Span) Count(key string, n int) {
	if s != nil {
		s.recorder.Count(key, n)
	}
}

// Number sets an attribute, unless it is not known: NaN.
func (s *Span) Number(key string, x float64) {
	if s != nil && x == x {
		s.recorder.Number(key, x)
	}
}

// Fail says that what the span is of went wrong, and why in a word of a closed
// set.
func (s *Span) Fail(why string) {
	if s != nil {
		s.recorder.Text(KeyError, why)
		s.recorder.Fail()
	}
}

// End ends the span.
func (s *Span) End() {
	if s != nil {
		s.recorder.End()
	}
}
