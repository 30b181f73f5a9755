package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Store is what a trainer needs of the feature store.
type Store interface {
	// LLMs lists every LLM that decisions name.
	LLMs(ctx context.Context) ([]string, error)
	// Window streams the rows of llm decided in [from, to) in order of time,
	// the newest limit of them.
	Window(ctx context.Context, llm string, from, to time.Time, limit int) iter.Seq2[feature.Row, error]
	// Served returns the bundle llm is served with, or ErrNotServed.
	Served(ctx context.Context, llm string) (Served, error)
	// LastVerdict returns the verdict of the newest stored bundle of llm and its
	// version, 0 when there is none.
	LastVerdict(ctx context.Context, llm string) (version int64, verdict json.RawMessage, err error)
	// Lease takes the right to refit for ttl; false when another owner has it.
	Lease(ctx context.Context, owner string, ttl time.Duration) (Lease, bool, error)
}

// Lease is the right to refit. Publish and Revalidate check it again inside
// their transaction. Renew may be called beside them.
type Lease interface {
	Renew(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
	// Publish stores a bundle with its verdict, without bytes when no fit came
	// to an end, and serves it when accepted,
	// unless a person has pinned what is served: then served is false.
	Publish(ctx context.Context, p Published) (version int64, served bool, err error)
	// Revalidate says that the served version was found good at the time.
	Revalidate(ctx context.Context, llm string, version int64, at time.Time, reason string) error
}

// Published is the result of one refit.
type Published struct {
	LLM      string
	Bytes    []byte
	Metadata json.RawMessage
	Verdict  json.RawMessage
	Accepted bool
	MaxAge   time.Duration
}

// Served is the bundle that is served.
type Served struct {
	Version   int64
	Validated time.Time
	Pinned    bool // a refit does not replace it
	Bytes     []byte
}

// ErrNotServed means that an LLM has no served bundle yet.
var ErrNotServed = errors.New("no bundle is served")
