package trace

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
)

// Open returns a reader of r's content, decompressed if it begins like a gzip
// file.
func Open(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("read compressed trace: %w", err)
	}
	return z, nil
}
