package openai

// WithUsage returns a body that asks for the closing usage chunk: the scanned
// body with stream_options.include_usage set, by inserting bytes. body must be
// the one that r was scanned from. Where nothing is to be done, it returns body
// itself: the client asked already, or does not stream, or the API always (or
// never) reports usage.
//
// Whoever asks for usage on a client's behalf removes the extra chunk again
// with StripUsage.
func (r *Request) WithUsage(body []byte) []byte {
	if r.IncludeUsage || !r.Stream || r.API != Chat && r.API != Completions {
		return body
	}
	const flag, object = `"include_usage":true`, `{"include_usage":true}`
	switch {
	case r.include.End > 0: // it says false or null
		return splice(body, r.include.Start, r.include.End, "true")
	case r.options.End == 0:
		return splice(body, r.open, r.open, `"stream_options":`+object+`,`)
	case body[r.options.Start] != '{': // null
		return splice(body, r.options.Start, r.options.End, object)
	}
	inside := cursor{b: body, i: r.options.Start + 1}
	if inside.space() == '}' {
		return splice(body, r.options.Start, r.options.End, object)
	}
	return splice(body, r.options.Start+1, r.options.Start+1, flag+",")
}

// splice returns a copy of body with [start, end) replaced.
func splice(body []byte, start, end int, with string) []byte {
	out := make([]byte, 0, len(body)-(end-start)+len(with))
	out = append(out, body[:start]...)
	out = append(out, with...)
	return append(out, body[end:]...)
}
