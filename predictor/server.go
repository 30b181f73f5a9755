package predictor

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/health"

	"github.com/spillway-llm/spillway/internal/access"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/tracing"
)

// Evaluator names what evaluates the forests of a bundle. Both are loaded and
// must agree before a bundle is served.
type Evaluator string

// The evaluators.
const (
	Leaves Evaluator = "leaves" // the leaves library: one tree after another
	Flat   Evaluator = "flat"   // package forest: eight rows at once, without branches
)

// Defaults of Config.
const (
	DefaultPollInterval  = 5 * time.Second
	DefaultSourceTimeout = 30 * time.Second
	DefaultMaxRows       = 16384
	DefaultMaxWaiting    = 256 // 40 ms of work for one core where a request has 16 rows: its caller is long gone
)

// Config is how a Server works. Zero values mean the defaults.
type Config struct {
	PollInterval  time.Duration   // between two looks at the source
	SourceTimeout time.Duration   // for one look, bundles included
	MaxRows       int             // most vectors in one call over the wire
	MaxWaiting    int             // most forecasts that wait for others; one more fails with ErrBusy
	Concurrency   int             // most forecasts evaluated at once; GOMAXPROCS by default
	Evaluator     Evaluator       // Flat by default
	Guard         *access.Guard   // of Serve; not nil: it speaks gRPC alone
	Tracer        *tracing.Tracer // of calls over gRPC; nil: no spans are made
	Logger        *slog.Logger
	Registerer    prometheus.Registerer
}

// Server holds the served bundles and makes forecasts from them. It is safe
// for concurrent use.
type Server struct {
	config  Config
	source  Source
	log     *slog.Logger
	metrics *metrics
	health  *health.Server

	syncing     sync.Mutex              // one pass at a time; only it writes what follows
	queue       *queue                  // in front of evaluation
	threads     atomic.Pointer[threads] // of the process; nil while it is left alone
	llms        atomic.Pointer[table]   // immutable snapshots
	sourceError atomic.Pointer[string]  // why the source could not be asked; nil when it could
	exchanges   sync.Pool               // of *exchange, for calls over the wire
}

// table is what is served, by LLM. It is never changed, only replaced.
type table map[string]*served

// served is one LLM's row of the table, immutable like it.
type served struct {
	published Published         // the pointer as last seen
	evaluator *bundle.Evaluator // nil when no bundle was ever loaded
	info      Info              // of the bundle behind evaluator
	refused   int64             // a version that can't be served, whatever is tried again; 0 for none
	lastError string            // why published is not what evaluator holds; empty when it is
}

// New returns a server that serves nothing yet: Run fills it.
func New(config Config, source Source) *Server {
	if config.PollInterval <= 0 {
		config.PollInterval = DefaultPollInterval
	}
	if config.SourceTimeout <= 0 {
		config.SourceTimeout = DefaultSourceTimeout
	}
	if config.MaxRows <= 0 {
		config.MaxRows = DefaultMaxRows
	}
	if config.Evaluator == "" {
		config.Evaluator = Flat
	}
	if config.MaxWaiting <= 0 {
		config.MaxWaiting = DefaultMaxWaiting
	}
	if config.Concurrency <= 0 {
		config.Concurrency = runtime.GOMAXPROCS(0)
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{config: config, source: source, log: config.Logger, health: health.NewServer(), queue: newQueue(config.Concurrency, config.MaxWaiting)}
	s.llms.Store(&table{})
	s.metrics = newMetrics(config.Registerer, s)
	s.updateHealth()
	return s
}

// Run keeps the server up to date until ctx ends, which is not an error.
// Nothing that goes wrong with the source stops it.
func (s *Server) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1) // full means that a pass is due anyway
	var listening sync.WaitGroup
	listening.Go(func() { s.listen(ctx, wake) })
	defer listening.Wait()
	defer s.health.Shutdown()

	tick := time.NewTicker(s.config.PollInterval)
	defer tick.Stop()
	for {
		s.Sync(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-wake:
		}
	}
}

// How long listen waits before it tries again.
const (
	listenRetryMin = time.Second
	listenRetryMax = 30 * time.Second
)

// listen turns notifications into wakes and survives the source's failures.
func (s *Server) listen(ctx context.Context, wake chan<- struct{}) {
	retry := listenRetryMin
	for {
		began := time.Now()
		err := s.source.Listen(ctx, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.log.Info("the source does not notify; polling alone serves", "poll_interval", s.config.PollInterval)
			return
		}
		s.metrics.sourceErrors.WithLabelValues("listen").Inc()
		if time.Since(began) > listenRetryMax {
			retry = listenRetryMin
		}
		s.log.Warn("listening for published bundles failed; polling goes on", "err", err, "retry_in", retry)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
		retry = min(2*retry, listenRetryMax)
	}
}

// Sync looks once at the source and loads what was published since. Run calls
// it; a caller needs it only to have a first bundle before Run. What went
// wrong is logged, counted and told by Status.
func (s *Server) Sync(ctx context.Context) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	defer s.updateHealth()
	within, cancel := context.WithTimeout(ctx, s.config.SourceTimeout)
	defer cancel()

	published, err := s.source.Published(within)
	if ctx.Err() != nil {
		return
	}
	s.noteSource(err)
	if err != nil {
		return
	}
	kept := make(map[string]bool, len(published))
	for _, p := range published {
		kept[p.LLM] = true
		s.put(p.LLM, s.advance(within, (*s.llms.Load())[p.LLM], p))
	}
	for _, llm := range slices.Sorted(maps.Keys(*s.llms.Load())) {
		if !kept[llm] {
			s.put(llm, nil)
			s.metrics.swaps.WithLabelValues(withdrawn).Inc()
			s.log.Info("bundle withdrawn", "llm", llm)
		}
	}
}

// noteSource logs the source's failure and its recovery once each.
func (s *Server) noteSource(err error) {
	before := s.sourceError.Load()
	if err == nil {
		s.sourceError.Store(nil)
		if before != nil {
			s.log.Info("the source of bundles answers again")
		}
		return
	}
	s.metrics.sourceErrors.WithLabelValues("published").Inc()
	text := err.Error()
	s.sourceError.Store(&text)
	if before == nil || *before != text {
		s.log.Error("the source of bundles does not answer; what is served stays", "err", err)
	}
}

// put replaces one row of the table, or removes it when row is nil.
func (s *Server) put(llm string, row *served) {
	next := maps.Clone(*s.llms.Load())
	if next[llm] = row; row == nil {
		delete(next, llm)
	}
	s.llms.Store(&next)
}
