package layers

// Module is the import path of this repository's module.
const Module = "github.com/spillway-llm/spillway"

// A Layer is one row of the table: one package and what it may import beside
// the standard library.
type Layer struct {
	// Package is the folder below the module root, with slashes.
	Package string

	// Pure forbids sockets, files, databases, logging, the wall clock, timers
	// and every source of chance that is not handed in; see impureImports and
	// impureNames. A pure package may import pure packages only.
	Pure bool

	// May lists the packages of this module that it may import, as folders.
	// A package that is not pure may import internal/telemetry unasked.
	May []string

	// Modules lists the third-party import paths it may use, each with all
	// that lies below it. A package that is not pure may also use what
	// everywhere lists.
	Modules []string

	// Why says what the row protects.
	Why string
}

// Main is the command: it may import any package of the module and any
// third-party module that has no door, and nobody may import it.
const Main = "cmd/spillway"

const (
	xxhash    = "github.com/cespare/xxhash/v2"
	leaves    = "github.com/dmitryikh/leaves"
	golearn   = "github.com/sjwhitworth/golearn"
	parquet   = "github.com/parquet-go/parquet-go"
	pgx       = "github.com/jackc/pgx/v5"
	goose     = "github.com/pressly/goose/v3"
	embedded  = "github.com/fergusstrange/embedded-postgres"
	gocmp     = "github.com/google/go-cmp"
	fsnotify  = "github.com/fsnotify/fsnotify"
	uuid      = "github.com/google/uuid"
	cron      = "github.com/robfig/cron/v3"
	progress  = "github.com/schollz/progressbar/v3"
	yaml      = "go.yaml.in/yaml/v3"
	xterm     = "golang.org/x/term"
	xsys      = "golang.org/x/sys"
	gonum     = "gonum.org/v1/gonum"
	grpc      = "google.golang.org/grpc"
	protobuf  = "google.golang.org/protobuf"
	clientgo  = "k8s.io/client-go"
	k8smeta   = "k8s.io/apimachinery"
	klog      = "k8s.io/klog/v2"
	envoy     = "github.com/envoyproxy/go-control-plane"
	promclnt  = "github.com/prometheus/client_golang"
	xsync     = "golang.org/x/sync"
	otel      = "go.opentelemetry.io"
	tracing   = "internal/tracing"
	access    = "internal/access"
	telemetry = "internal/telemetry"
	latency   = "proto/gen/latencyv1"
	share     = "proto/gen/sharev1"
)

// everywhere is what any package that is not pure may use unasked: metrics are
// built by the package that moves them, and errgroup ends what Run started.
var everywhere = []string{promclnt, xsync}

// Table lists every package of the module, also some that are still to come.
var Table = []Layer{
	// The vocabulary and the mathematics: what the simulator, the router and
	// the trainer share, and what can be judged offline.
	{Package: "internal/feature", Pure: true,
		Why: "the vocabulary stands below everything, so that one maker of vectors can serve all"},
	{Package: "internal/physics", Pure: true, May: []string{"internal/feature"},
		Why: "the prior is arithmetic on a load and a profile"},
	{Package: "internal/measured", Pure: true, May: []string{"internal/feature"},
		Why: "others' measurements are parsed from a reader; what is fitted to them is not its business"},
	{Package: "internal/physics/fit", Pure: true, May: []string{"internal/feature", "internal/physics", "internal/measured"},
		Why: "a profile depends on rows alone, so that a fit can be repeated; the prior itself carries none of it"},
	{Package: "internal/calibrate", Pure: true, May: []string{"internal/feature", "internal/physics", "internal/physics/fit"}, Modules: []string{gonum},
		Why: "what is measured and what it means depend on an engine's limits and its times alone; taking them is another's"},
	{Package: "internal/calibrate/measure", May: []string{"internal/calibrate", "internal/feature", "internal/physics/fit", "internal/openai", "router/pool"},
		Why: "a client of one engine that reads its metrics as the pool does, and knows no router"},
	{Package: "internal/forest", Pure: true,
		Why: "evaluation knows trees and rows of numbers, not what the numbers mean"},
	{Package: "internal/bundle", Pure: true, May: []string{"internal/feature", "internal/physics", "internal/forest"},
		Why: "a bundle is bytes and their meaning; who fetches or serves it is not its business"},
	{Package: "internal/openai", Pure: true,
		Why: "the wire format is read in place, with no opinion about routing"},
	{Package: "internal/trace", Pure: true,
		Why: "traces are parsed from a reader; opening files is the caller's"},
	{Package: "internal/splitmix", Pure: true,
		Why: "what a seed stands for must be the same wherever it is drawn"},
	{Package: "internal/workload", Pure: true, May: []string{"internal/trace", "internal/splitmix"},
		Why: "what is asked depends on a seed alone, so that every policy is given the same"},
	{Package: "internal/fleet", Pure: true,
		May: []string{"internal/feature", "internal/physics", "internal/workload", "router/design", "router/policy", "router/ledger", "router/prefix", "router/correction"},
		Why: "the simulator runs the router's own pure parts in virtual time; forecasts come through an interface"},
	{Package: "internal/plot", Pure: true,
		Why: "a chart is bytes that depend on its points alone"},
	{Package: "internal/simreport", Pure: true, May: []string{"internal/fleet", "internal/plot"}, Modules: []string{gonum},
		Why: "reads what simulations came to and runs none, so that the same runs give the same page"},
	{Package: "internal/export", Pure: true, May: []string{"internal/feature"}, Modules: []string{parquet},
		Why: "the format of a file does not depend on where its rows come from or go to"},
	{Package: "internal/evaluate", Pure: true,
		May:     []string{"internal/feature", "internal/physics", "internal/forest", "internal/bundle", "router/policy", "router/correction", "internal/fleet", "internal/trace"},
		Modules: []string{gonum},
		Why:     "an estimate depends on rows and a seed alone, so that it can be repeated"},

	{Package: "internal/evaluate/refit", Pure: true,
		May: []string{"internal/feature", "internal/physics", "internal/measured", "internal/bundle", "internal/evaluate", "trainer/learn"},
		Why: "what it judges is made by the trainer's own code; what the judgement is made of, it takes from evaluate"},
	{Package: "internal/evaluate/offpolicy", Pure: true,
		May:     []string{"internal/feature", "internal/evaluate", "router/policy", "router/correction"},
		Modules: []string{gonum},
		Why:     "decides again through policy.Decide alone; where rows come from is another's"},
	{Package: "internal/evaluate/experiment", Pure: true, May: []string{"internal/feature", "internal/evaluate", "router/design"},
		Modules: []string{gonum},
		Why:     "what an experiment showed depends on its rows alone; which arm had them, the router's own code says"},
	{Package: "internal/evaluate/simulate", Pure: true,
		May:     []string{"internal/feature", "internal/physics", "internal/physics/fit", "internal/splitmix", "internal/workload", "internal/fleet", "internal/evaluate", "router/policy", "router/prefix", "router/correction"},
		Modules: []string{gonum},
		Why:     "replays a log through the simulator's own fleet; who asks and what is shown is another's"},
	{Package: "internal/evaluate/report", Pure: true, May: []string{"internal/evaluate/simulate", "internal/feature", "internal/evaluate", "internal/evaluate/offpolicy", "internal/evaluate/experiment", "internal/plot"},
		Why: "shows what an evaluation came to and estimates nothing itself"},

	{Package: "internal/explain", Pure: true, May: []string{"internal/feature", "router/policy"},
		Why: "an explanation is made from the row alone, whoever shows it"},

	{Package: "internal/advise", Pure: true,
		May:     []string{"internal/feature", "internal/physics", "internal/workload", "internal/trace", "internal/fleet", "router/policy"},
		Modules: []string{gonum},
		Why:     "what it advises depends on traffic, a profile and seeds alone; what is a log's and what is simulated it reads alike"},
	{Package: "internal/advise/report", Pure: true, May: []string{"internal/advise", "internal/plot"},
		Why: "shows advice and gives none"},

	// The router: pure decisions in the middle, doors to the world at the rim.
	{Package: "router/policy", Pure: true, May: []string{"internal/feature", "internal/physics"},
		Why: "a stored row alone must give the same choice again, bit for bit"},
	{Package: "router/design", Pure: true, May: []string{"internal/splitmix"},
		Why: "which arm has a moment must be the same for every router, the simulator and an analysis"},
	{Package: "router/ledger", Pure: true, May: []string{"internal/feature"},
		Why: "counts depend on the events and their times alone; it fills feature.Ledger itself, so that no copy can drift"},
	{Package: "router/prefix", Pure: true, Modules: []string{xxhash},
		Why: "the index is walked once a request; nothing in it may block"},
	{Package: "router/correction", Pure: true, May: []string{"internal/feature"},
		Why: "what is learned online must replay from outcomes and their times"},
	{Package: "router/pool", May: []string{"internal/feature", "internal/socket"}, Modules: []string{fsnotify, yaml, xxhash},
		Why: "discovery and scraping know endpoints, not requests"},
	{Package: "router/pool/kube", May: []string{"router/pool"}, Modules: []string{clientgo, k8smeta, klog},
		Why: "the Kubernetes client stays behind one package"},
	{Package: "router/pool/dns", May: []string{"router/pool"},
		Why: "resolves names again and again, and knows no more of what it finds than its address"},
	{Package: "router/route",
		May: []string{"internal/feature", "internal/physics", "router/design", "router/policy", "router/ledger", "router/prefix", "router/correction", "router/pool", tracing},
		// A decision's id is made where the decision is.
		Modules: []string{uuid},
		Why:     "the one choke point of both front doors; forecasts and rows leave through interfaces it declares"},
	{Package: "router/share", May: []string{"router/route", "router/prefix", "router/ledger", "router/correction", "internal/feature", access, share}, Modules: []string{grpc, protobuf},
		Why: "carries what routers tell each other, and has no opinion about it"},
	{Package: "router/front", May: []string{"router/route", "internal/openai", "internal/feature", tracing},
		Why: "what both front doors do alike is done once; it speaks neither's protocol"},
	{Package: "router/gateway", May: []string{"router/front", "router/route", "internal/openai", "internal/feature", tracing},
		Why: "a front door translates and streams; it decides nothing"},
	{Package: "router/extproc", May: []string{"router/front", "router/route", "internal/openai", "internal/feature", "internal/socket", tracing, access}, Modules: []string{envoy, grpc, protobuf},
		Why: "a front door translates and meters; it decides nothing"},
	{Package: "router/extproc/extproctest", Modules: []string{envoy, grpc, protobuf},
		Why: "plays the proxy for tests and benchmarks and shares no code with what it asks"},
	{Package: "router/handover",
		Why: "passes sockets from one process to the next and knows nothing of what is served on them"},
	{Package: "router/admin", May: []string{"router/route"},
		Why: "the second listener shows what the router knows and changes nothing on the request path"},
	{Package: "router/console", May: []string{"router/route", "router/policy", "internal/explain", "internal/feature"},
		Why: "shows a person what the router and a Store it declares know; it explains decisions and makes none"},
	{Package: "router/console/showcase", May: []string{"router/console", "router/route", "router/policy", "internal/feature", "internal/physics"},
		Why: "plays routers to the console alone, so that its pages can be looked at without a fleet"},
	{Package: "router",
		May: []string{"internal/feature", "internal/physics", "router/policy", "router/ledger", "router/prefix", "router/correction",
			"router/pool", "router/pool/kube", "router/route", "router/share", "router/front", "router/gateway", "router/extproc", "router/handover", "router/admin", "router/console", tracing, access},
		Modules: []string{grpc},
		Why:     "wires its own parts; the predictor and the store are handed in, so a router runs without either"},

	// The sidecar.
	{Package: "proto", Why: "holds the go:generate line beside the .proto files"},
	{Package: latency, Modules: []string{grpc, protobuf},
		Why: "generated code, committed"},
	{Package: share, Modules: []string{grpc, protobuf},
		Why: "generated code, committed"},
	{Package: "predictor", May: []string{"internal/feature", "internal/bundle", "internal/forest", "internal/socket", tracing, access, latency}, Modules: []string{leaves, grpc, protobuf},
		Why: "serves bundles from a Source it declares; does not know that a database exists"},
	{Package: "predictor/predictortest", May: []string{"internal/feature", latency}, Modules: []string{grpc},
		Why: "plays a predictor that says what it is told, and shares no code with those that ask it"},

	// The trainer.
	{Package: "trainer/gbdt", Pure: true, May: []string{"internal/forest"},
		Why: "same rows and seed, same bytes, on any number of threads"},
	{Package: "trainer/lightgbm", May: []string{"internal/forest", "trainer/gbdt"},
		Why: "runs a program that others wrote; forests come in through one door, and are checked there"},
	{Package: "trainer/baseline", Modules: []string{golearn},
		Why: "the simple model a forest must beat; golearn's global state stays in here"},
	{Package: "trainer/drift", Pure: true, May: []string{"internal/feature"},
		Why: "what counts as a move depends on the outcomes alone, in their order"},
	{Package: "trainer/learn", Pure: true,
		May: []string{"internal/feature", "internal/physics", "internal/physics/fit", "internal/forest", "internal/bundle", "internal/evaluate", "trainer/gbdt"},
		Why: "a bundle depends on rows and settings alone, so that trainer and benchmarks cannot learn differently"},
	{Package: "trainer",
		May:     []string{"internal/feature", "internal/physics", "internal/forest", "trainer/gbdt", "trainer/learn", "trainer/drift", "internal/bundle", "trainer/baseline", "internal/evaluate", "router/correction"},
		Modules: []string{cron, gonum},
		Why:     "refits from a Store it declares; the same cycle runs on a database and in memory"},

	// The store.
	{Package: "featurestore", May: []string{"internal/feature", "featurestore/migration"}, Modules: []string{pgx, goose, uuid},
		Why: "the only door to the database; others declare the few methods they need"},
	{Package: "featurestore/migration", Modules: []string{goose},
		Why: "numbered SQL, embedded"},
	{Package: "featurestore/pglocal", Modules: []string{pgx, embedded, xsys},
		Why: "starts and stops a Postgres; knows no table"},
	{Package: "featurestore/featurestoretest", May: []string{"internal/feature", "featurestore", "featurestore/migration", "featurestore/pglocal"}, Modules: []string{pgx, gocmp},
		Why: "a real database and its in-memory twin, for tests of other packages"},

	// Traffic, engines, and what every process needs.
	{Package: "internal/fleet/server", May: []string{"internal/fleet", "internal/physics", "internal/feature", "internal/openai"},
		Why: "the real-time face of the simulator: an engine to the router, no more"},
	{Package: "internal/demo",
		May: []string{"internal/feature", "internal/loadgen", "internal/demo/child", "router/policy", "featurestore", "featurestore/pglocal"},
		Why: "runs the binary's own verbs and checks from outside what they claim; nothing of it is in a service"},
	{Package: "internal/demo/child",
		Why: "runs verbs of the binary as processes, whoever watches them; knows none of them"},
	{Package: "internal/loadgen", May: []string{"internal/openai", "internal/trace", "internal/workload", "internal/splitmix"}, Modules: []string{progress, xterm},
		Why: "a client measures by the router's label rules and knows nothing else of it"},
	{Package: "internal/bench/profiles", May: []string{"internal/bench", "internal/feature", "internal/measured", "internal/physics/fit"},
		Why: "judges the fits on rows that they have not seen"},
	{Package: "internal/bench", Modules: []string{progress},
		Why: "bars and files of results, with no opinion about what is measured"},
	{Package: "internal/bench/published", May: []string{"internal/bench", "internal/feature", "internal/fleet", "internal/workload", "internal/physics", "internal/plot", "router/policy"},
		Why: "runs what others measured through the simulator and lays both side by side"},
	{Package: "internal/bench/routers", May: []string{"internal/bench", "internal/feature", "internal/fleet", "internal/physics", "internal/workload", "router/policy"},
		Why: "runs several routers through the simulator, beside one"},
	{Package: "internal/bench/forecast",
		May: []string{"internal/bench", "internal/bundle", "internal/evaluate", "internal/feature", "internal/fleet", "internal/measured", "internal/physics",
			"internal/workload", "router/correction", "router/policy", "trainer/baseline", "trainer/gbdt", "trainer/learn"},
		Why: "learns through trainer/learn alone, so that what is judged is what is served"},
	{Package: "internal/bench/trial", May: []string{"internal/bundle", "internal/feature", "internal/fleet", "internal/physics", "internal/workload", "router/policy", "trainer/learn"},
		Modules: []string{gonum},
		Why:     "worlds and intervals of benchmarks that compare the router with itself on equal requests"},
	{Package: "internal/bench/failures", May: []string{"internal/bench", "internal/bench/trial", "internal/feature", "internal/fleet", "router/correction", "router/policy"},
		Why: "spoils what a predictor says and looks at what clients see"},
	{Package: "internal/bench/advise", May: []string{"internal/bench", "internal/bench/trial", "internal/advise", "internal/physics", "internal/workload", "router/policy"},
		Why: "judges advice on seeds that it was not given on, with the code that gives it"},
	{Package: "internal/bench/signals", May: []string{"internal/bench", "internal/bench/trial", "internal/feature", "internal/fleet"},
		Why: "ages what a router knows of its endpoints and looks at what clients see"},
	{Package: "internal/bench/saturation",
		May: []string{"internal/bench", "internal/bench/trial", "internal/evaluate", "internal/feature", "internal/fleet", "internal/physics", "router/correction"},
		Why: "looks at what routers would tell an autoscaler of simulated fleets, with the code that tells it"},
	{Package: "internal/bench/scale",
		May: []string{"internal/bench", "internal/bench/process", "internal/bench/served", "internal/bench/trial", "internal/feature", "internal/fleet",
			"router", "router/route", "router/policy"},
		Why: "runs a large fleet in virtual time, and a whole router before as many fake endpoints"},
	{Package: "internal/bench/engine", May: []string{"internal/bench", "internal/fleet", "internal/measured", "internal/physics", "internal/physics/fit", "internal/feature"},
		Why: "replays what a real engine served and compares"},
	{Package: "internal/bench/offpolicy",
		May: []string{"internal/bench", "internal/bench/process", "internal/collector", "internal/evaluate/offpolicy", "internal/export", "internal/feature", "internal/fleet",
			"internal/physics", "router/ledger", "router/policy", "router/prefix"},
		Why: "makes logs whose truth is known, or which are large, and judges estimates and their cost"},
	{Package: "internal/bench/evaluate",
		May: []string{"internal/bench", "internal/bench/trial", "internal/bundle", "internal/evaluate", "internal/evaluate/experiment", "internal/evaluate/offpolicy",
			"internal/evaluate/simulate", "internal/feature", "internal/fleet", "internal/physics", "internal/plot", "internal/workload",
			"router/correction", "router/design", "router/policy", "trainer/learn"},
		Why: "asks every instrument what a target would do, and runs it to see"},
	{Package: "internal/bench/gbdt", May: []string{"internal/bench", "trainer/gbdt"},
		Why: "trains beside others' tools and compares"},
	{Package: "internal/bench/fleet", May: []string{"internal/bench"},
		Why: "runs the benchmarks that stand beside the code and judges their numbers"},
	{Package: "internal/bench/gate", May: []string{"internal/bench", "internal/feature", "internal/physics", "trainer"},
		Why: "runs whole refits on windows that it spoils, through the trainer's own face"},
	{Package: "internal/bench/policies",
		May: []string{"internal/bench", "internal/bundle", "internal/feature", "internal/fleet", "internal/physics", "internal/plot", "internal/trace", "internal/workload",
			"router/policy", "trainer"},
		Modules: []string{gonum},
		Why:     "refits through the trainer's own face and routes through the simulator's, so that what is judged is what is served"},
	{Package: "internal/bench/predictor", May: []string{"internal/bench", "internal/feature", "internal/bundle", "trainer/gbdt", "predictor"},
		Why: "asks a predictor as a router does and knows what the bare evaluation costs"},
	{Package: "internal/bench/process", Why: "what a process uses can only be told of a whole one"},
	{Package: "internal/bench/served",
		May: []string{"internal/feature", "internal/physics", "router", "router/route", "router/pool", "router/gateway"},
		Why: "benchmarks of whole processes run the same router and the same proxy"},
	{Package: "internal/bench/gateway",
		May: []string{"internal/bench", "internal/bench/process", "internal/bench/served", "router"},
		Why: "runs a whole router beside a bare proxy, and asks both"},
	{Package: "internal/soak",
		May: []string{"internal/bench", "internal/feature", "internal/physics", "internal/fleet/server", "featurestore", "featurestore/pglocal",
			"featurestore/featurestoretest", "router", "router/route", "router/pool", "router/gateway", "router/extproc", "router/extproc/extproctest"},
		Why: "runs a whole router with all that can go wrong around it, and looks at what is left"},
	{Package: "internal/collector", Why: "it says how often the garbage of a process is collected, and imports nothing"},
	{Package: "internal/crowd", May: []string{"router/extproc/extproctest"},
		Why: "clients of both front doors, who see what clients see and nothing else"},
	{Package: "internal/chaos",
		May: []string{"internal/bench", "internal/crowd", "internal/demo/child", "internal/feature", "featurestore", "featurestore/pglocal", "router/policy",
			"predictor/predictortest"},
		Why: "runs the binary's own verbs, makes them fail and looks from outside; nothing of it is in a service"},
	{Package: "internal/dashboards", Modules: []string{yaml},
		Why: "reads what is deployed to watch Spillway with; it asks nobody"},
	{Package: "internal/dashboards/verify", May: []string{"internal/dashboards", "internal/demo/child", "featurestore/pglocal"}, Modules: []string{yaml},
		Why: "runs the binary's own verbs under a Prometheus, and asks that alone"},
	{Package: "internal/bench/restart",
		May: []string{"internal/bench", "internal/crowd", "internal/demo/child", "featurestore", "featurestore/pglocal"},
		Why: "runs the binary's own verbs, restarts them and looks from outside"},
	{Package: "internal/bench/extproc",
		May: []string{"internal/bench", "internal/bench/process", "internal/feature", "internal/physics", "internal/bundle", "internal/openai", "internal/socket", "trainer/gbdt", "predictor",
			"router", "router/route", "router/pool", "router/gateway", "router/extproc", "router/extproc/extproctest"},
		Modules: []string{grpc, protobuf},
		Why:     "runs a whole router with all around it, and plays the proxy that asks it"},
	{Package: tracing, Modules: []string{grpc},
		Why: "what parts say of a request costs nothing where nobody listens, not even the building of who would"},
	{Package: tracing + "/otlp", May: []string{tracing}, Modules: []string{otel, grpc},
		Why: "what leaves the process of a request is decided in one place"},
	{Package: access, Modules: []string{grpc},
		Why: "certificates and tokens are read, shown and asked for in one way on every listener"},
	{Package: "internal/socket",
		Why: "bytes go through it; whose they are it does not know"},
	{Package: telemetry,
		Why: "importable by every package that is not pure, so it imports none"},
	{Package: "internal/layers",
		Why: "reads source text"},
}

// A Door is an import path that only some packages may use, the command
// included: what is behind a door can be replaced without looking elsewhere.
type Door struct {
	// Import is the import path; all that lies below it is behind the door too.
	Import string

	// Behind lists the folders that may use it. A folder that ends in "/..."
	// stands for itself and all that lies below it.
	Behind []string

	// Why says what the door protects.
	Why string
}

// Doors lists the restricted imports.
var Doors = []Door{
	{Import: pgx, Behind: []string{"featurestore/..."},
		Why: "SQL stands in one place, tested on a real Postgres"},
	{Import: goose, Behind: []string{"featurestore/..."},
		Why: "the schema changes through the store alone"},
	{Import: golearn, Behind: []string{"trainer/baseline"},
		Why: "half of it needs cgo, and all of it shares global state"},
	{Import: leaves, Behind: []string{"predictor"},
		Why: "it is a reference, to be dropped where the flat evaluator serves"},
	{Import: Module + "/" + latency, Behind: []string{"predictor/..."},
		Why: "the wire format of a forecast has one reader and one writer"},
	{Import: Module + "/" + share, Behind: []string{"router/share"},
		Why: "the wire format of what routers tell each other has one reader and one writer"},
	{Import: otel, Behind: []string{"internal/tracing/otlp"},
		Why: "a span says nothing of a client or a prompt, which one package can promise"},
	{Import: clientgo, Behind: []string{"router/pool/kube"},
		Why: "what finds endpoints is told apart from what routes to them"},
	{Import: envoy, Behind: []string{"router/extproc/..."},
		Why: "Envoy's types end where the request is translated"},
}
