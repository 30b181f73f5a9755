package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/openai"
)

// Strings are looked at many bytes at a time: every byte must count at every
// place.
func TestEveryByteOfAStringIsSeen(t *testing.T) {
	const length = 75
	for at := range length {
		for b := range 256 {
			text := make([]byte, length)
			for i := range text {
				text[i] = "nothing special \xc3\xa9"[i%18]
			}
			text[at] = byte(b)
			if b == '\\' && at < length-1 {
				text[at+1] = 'n'
			}
			body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%s"}]}`, text)
			r, err := openai.Scan(body, chat)
			if want := json.Valid(body); want != (err == nil) {
				t.Fatalf("byte %#x at %d: %v, want valid %v", b, at, err, want)
			}
			if err == nil && r.PromptBytes != length+len("user") {
				t.Fatalf("byte %#x at %d: a prompt of %d bytes", b, at, r.PromptBytes)
			}
		}
	}
}

// BenchmarkScanLines scans a prompt with an escape every 60 bytes, as source code
// and mail have.
func BenchmarkScanLines(b *testing.B) {
	text := strings.Repeat(strings.Repeat("some words ", 5)+`more.\n`, 3200)
	body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%s"}]}`, text)
	b.SetBytes(int64(len(body)))
	var r openai.Request
	for b.Loop() {
		if err := r.Scan(body, chat); err != nil {
			b.Fatal(err)
		}
	}
}
