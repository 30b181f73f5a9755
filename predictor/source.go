package predictor

import (
	"context"
	"crypto/sha256"
	"time"
)

// Published is the pointer of one LLM: which bundle should be served.
type Published struct {
	LLM         string
	Version     int64             // of the bundle, above 0; the same version is the same bytes for ever
	SHA256      [sha256.Size]byte // of its bytes
	ValidatedAt time.Time         // when it was last found good enough to serve
	MaxAge      time.Duration     // how long that lasts
}

// Source is where bundles are published.
type Source interface {
	// Published returns the pointers of all LLMs. It is asked often and should
	// be cheap.
	Published(ctx context.Context) ([]Published, error)

	// Bundle returns the bytes of one version, as bundle.Encode wrote them.
	Bundle(ctx context.Context, version int64) ([]byte, error)

	// Listen calls changed whenever a pointer may have moved, until ctx ends
	// or an error stops it. A source that cannot notify returns nil at once:
	// then polling alone serves.
	Listen(ctx context.Context, changed func()) error
}
