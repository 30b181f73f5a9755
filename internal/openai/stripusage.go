package openai

import "bytes"

// StripUsage removes from a stream the closing chunk that has usage and no
// choices, which engines send when stream_options.include_usage is set, and
// passes every other byte unchanged. Its zero value is ready for one stream.
//
// It holds back an incomplete event until the chunk that completes it, at most
// MaxEvent bytes; longer events pass through.
type StripUsage struct {
	boundary boundary
	held     []byte
	passing  bool // the current event outgrew the buffer
	scratch  []byte
	chunk    chunk
}

// Filter appends to dst what may go on to the client now that p has arrived,
// and returns it. It keeps no reference to p or dst.
func (s *StripUsage) Filter(dst, p []byte) []byte {
	for len(p) > 0 {
		n := s.boundary.find(p)
		if n < 0 {
			if !s.passing && len(s.held)+len(p) > MaxEvent {
				dst = s.Flush(dst)
				s.passing = true
			}
			if s.passing {
				return append(dst, p...)
			}
			s.held = append(s.held, p...)
			return dst
		}
		event := p[:n]
		p = p[n:]
		if len(s.held) > 0 {
			s.held = append(s.held, event...)
			event = s.held
		}
		if s.passing || len(event) > MaxEvent || !s.surplus(event) {
			dst = append(dst, event...)
		}
		s.held, s.passing = s.held[:0], false
	}
	return dst
}

// Flush appends what is held back to dst. It is called at the end of the
// stream.
func (s *StripUsage) Flush(dst []byte) []byte {
	dst = append(dst, s.held...)
	s.held = s.held[:0]
	return dst
}

func (s *StripUsage) surplus(event []byte) bool {
	if !bytes.Contains(event, []byte(`"usage"`)) {
		return false
	}
	var data []byte
	data, s.scratch = eventData(event, s.scratch)
	return s.chunk.parse(data) && s.chunk.hasUsage && s.chunk.choices == 0
}
