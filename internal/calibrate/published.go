package calibrate

import (
	"math"
	"regexp"
	"strings"
	"unicode"
)

// Published is one peak prefill throughput that others measured.
type Published struct {
	LLM          string  `json:"llm"`
	Engine       string  `json:"engine"`
	Version      string  `json:"version"` // of the engine; "" when not told
	Hardware     string  `json:"hardware"`
	BudgetTokens int     `json:"budget_tokens"` // B: the token budget, and the prompts' length
	Throughput   float64 `json:"throughput"`    // tokens/s
	Note         string  `json:"note"`
}

// matrix is llm-d's table of peak prefill throughputs: the median of B/T(B)
// through the full path, where the note says nothing else. For SGLang on H100
// the table says 30,720; its authors' announcement of 2026-08-17 calls that
// twice too high, and 15,360 right.
var matrix = []Published{
	{"Qwen3-32B", "vLLM", "v0.23.0", "2x H100-80GB", 8192, 15928, ""},
	{"Qwen3-32B", "vLLM", "", "2x H100-80GB", 8192, 20480, "single requests, by a quadratic fit"},
	{"Qwen3-VL-32B-Instruct", "vLLM", "v0.23.0", "2x H200-141GB", 8192, 15751, "text only"},
	{"gpt-oss-120B", "vLLM", "v0.22.0", "1x H100-80GB", 8192, 39065, ""},
	{"Qwen3-32B", "SGLang", "v0.5.13.post1", "2x H100-80GB", 8192, 15360, "as corrected by its authors"},
	{"Qwen3-32B", "vLLM-TPU", "v0.22.0", "8x TPU v6e", 8192, 26290, ""},
	{"Qwen3-32B", "vLLM-TPU", "v0.22.0", "4x TPU v7x", 8192, 27336, ""},
	{"gpt-oss-120B", "vllm-rbln", "0.11.3a7", "1x Rebellions NPU", 512, 12884, "one sequence"},
	{"Llama-3.2-3B-Instruct", "vLLM-CPU", "v0.6.0", "1x GCP C3 AMX", 2048, 1970, ""},
	{"Qwen3-Coder-480B-FP8", "vLLM-TPU", "", "8x TPU v7x", 8192, 16444, "agentic guide"},
	{"GLM-5.2-NVFP4", "SGLang", "", "8x B200", 32768, 24027, "with EAGLE, 32k prompts"},
}

// Nearest returns the published path that has most in common with what was
// measured: the LLM counts most, then hardware and engine, of which any spelling
// may be given, and among equals the throughput. alike is false when the LLM is
// another.
func Nearest(llm, engine, hardware string, throughput float64) (nearest Published, alike bool) {
	best, off := -1, 0.0
	for _, p := range matrix {
		score := 0
		same := sameLLM(llm, p.LLM)
		if same {
			score += 8
		}
		if strings.EqualFold(engine, p.Engine) {
			score++
		}
		score += common(hardware, p.Hardware)
		away := math.Abs(math.Log(throughput / p.Throughput))
		if score > best || score == best && away < off {
			nearest, alike, best, off = p, same, score, away
		}
	}
	return nearest, alike
}

// sameLLM compares names without their owner, case and punctuation.
func sameLLM(a, b string) bool {
	plain := func(s string) string {
		s = s[strings.LastIndexByte(s, '/')+1:]
		return strings.Join(parts(s), "")
	}
	return plain(a) == plain(b)
}

// common is how many words the two have in common, at most 3.
func common(a, b string) int {
	n := 0
	theirs := parts(b)
	for _, word := range parts(a) {
		for _, other := range theirs {
			if word == other {
				n++
				break
			}
		}
	}
	return min(n, 3)
}

// times is a count in front of what is counted: "2xH100".
var times = regexp.MustCompile(`\b([0-9]+x)([a-z])`)

// parts splits a name into its words, in lower case.
func parts(s string) []string {
	spaced := times.ReplaceAllString(strings.ToLower(s), "$1 $2")
	return strings.FieldsFunc(spaced, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
