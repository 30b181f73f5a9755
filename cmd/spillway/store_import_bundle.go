package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/predictor"
)

// importing is what "spillway store import-bundle" was asked for.
type importing struct {
	llm    string
	files  [bundle.Targets]string
	clip   float64
	serve  bool
	maxAge time.Duration
}

// flagOf is the flag that takes the file of a head: ttft-p50 and the like.
func flagOf(t bundle.Target) string { return strings.ReplaceAll(t.String(), "_", "-") }

func storeImportBundleCommand() *cobra.Command {
	var i importing
	cmd := &cobra.Command{
		Use:   "import-bundle",
		Short: "Store forests that LightGBM fitted elsewhere as a bundle",
		Long: `Store four forests that LightGBM fitted elsewhere as a bundle of one LLM. The
files are LightGBM's text (version v3 or v4). Each predicts ln(actual/prior) from
the columns of a vector, by their names and in their order, the priors among them
("spillway store export" writes such rows); its feature_infos say where it was
trained. What the fast evaluator lacks, such as categorical splits, is served
through leaves; linear_tree, reg_sqrt and other formats are refused.

The bundle is stored and not served: no gate has judged it. --serve serves it at
once, unless a rollback has pinned another; the next accepted refit replaces it
unless "spillway store rollback LLM VERSION" keeps it.`,
		Example: `  DATABASE_URL=postgres://... spillway store import-bundle --llm qwen3-32b \
    --ttft-p50 ttft50.txt --ttft-p90 ttft90.txt --tpot-p50 tpot50.txt --tpot-p90 tpot90.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return i.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&i.llm, "llm", "", "LLM the forests are for")
	for t := range bundle.Targets {
		f.StringVar(&i.files[t], flagOf(t), "", fmt.Sprintf("file with the forest of %s", t))
	}
	f.Float64Var(&i.clip, "clip", 0.25, "most that a forest may add to the logarithm of a prior, or take away")
	f.BoolVar(&i.serve, "serve", false, "serve the bundle at once, without a verdict")
	f.DurationVar(&i.maxAge, "max-age", 24*time.Hour, "with --serve: how long the bundle is fresh unless a trainer renews it")
	return cmd
}

func (i *importing) run(cmd *cobra.Command) error {
	b, err := i.bundle()
	if err != nil {
		return err
	}
	data, err := bundle.Encode(b)
	if err != nil {
		return err
	}
	took, err := costOf(b)
	if err != nil {
		return err
	}
	store, err := askStore(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	version, served, err := i.store(cmd.Context(), store, data)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: bundle %d stored, %d bytes, %d known answers, %s for %d rows\n", i.llm, version, len(data), len(b.Known), took, len(b.Known))
	switch {
	case served:
		fmt.Fprintf(out, "it is served now, and fresh for %s\n", i.maxAge)
	case i.serve:
		fmt.Fprintf(out, "it is not served: a rollback has pinned another until \"spillway store rollback --release %s\"\n", i.llm)
	default:
		fmt.Fprintln(out, "it is not served: --serve stores and serves")
	}
	return nil
}

// bundle reads the files.
func (i *importing) bundle() (*bundle.Bundle, error) {
	if i.llm == "" {
		return nil, errors.New("--llm: name the LLM that the forests are for")
	}
	if !(i.clip > 0 && i.clip <= bundle.MaxClip) {
		return nil, fmt.Errorf("--clip: %v must be above 0 and at most %v", i.clip, bundle.MaxClip)
	}
	if i.maxAge <= 0 {
		return nil, fmt.Errorf("--max-age: %s must be above 0", i.maxAge)
	}
	f := bundle.Foreign{LLM: i.llm, Clip: i.clip, At: time.Now()}
	for t, file := range i.files {
		flag := flagOf(bundle.Target(t))
		if file == "" {
			return nil, fmt.Errorf("--%s: name the file with the forest of %s", flag, bundle.Target(t))
		}
		text, err := readForest(file)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		// Import reads no further than the header.
		if _, err := forest.Parse(text); err != nil && !errors.Is(err, forest.ErrUnsupported) {
			return nil, fmt.Errorf("--%s: %s: %w", flag, file, err)
		}
		f.Forests[t] = text
	}
	b, err := bundle.Import(f, predictor.ReadLeaves)
	if head := (*bundle.HeadError)(nil); errors.As(err, &head) {
		return nil, fmt.Errorf("--%s: %s: %w", flagOf(head.Target), i.files[head.Target], head.Err)
	}
	return b, err
}

// readForest reads a file that is not larger than a forest may be.
func readForest(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, forest.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > forest.MaxBytes {
		return nil, fmt.Errorf("%s: more than %d bytes, which no forest here may have", path, forest.MaxBytes)
	}
	return text, nil
}

// costOf is how long the forecasts of all known answers take.
func costOf(b *bundle.Bundle) (time.Duration, error) {
	e, err := b.EvaluatorWith(predictor.ReadLeaves)
	if err != nil {
		return 0, err
	}
	vectors, out := make([]feature.Vector, len(b.Known)), make([]feature.Forecast, len(b.Known))
	for k := range b.Known {
		vectors[k] = b.Known[k].Vector
	}
	e.Evaluate(vectors, out) // once to get warm
	began := time.Now()
	e.Evaluate(vectors, out)
	return time.Since(began).Round(time.Microsecond), nil
}

// importLease is how long publishing may take.
const importLease = time.Minute

// store publishes the bundle under the trainers' lease.
func (i *importing) store(ctx context.Context, store *featurestore.Store, data []byte) (version int64, served bool, err error) {
	owner, err := leaseOwner()
	if err != nil {
		return 0, false, err
	}
	lease, free, err := store.AcquireLease(ctx, refitLease, owner, importLease)
	if err != nil {
		return 0, false, err
	}
	if !free {
		return 0, false, errors.New("a trainer is refitting and alone may publish until it is done: try again")
	}
	defer func() { err = errors.Join(err, store.ReleaseLease(context.WithoutCancel(ctx), lease)) }()
	reasons := []string{}
	if !i.serve {
		reasons = append(reasons, "imported without --serve")
	}
	verdict, err := json.Marshal(map[string]any{"accepted": i.serve, "reasons": reasons})
	if err != nil {
		return 0, false, fmt.Errorf("write the verdict: %w", err)
	}
	metadata, err := json.Marshal(map[string]any{"schema": feature.Schema.String(), "imported": true, "bytes": len(data)})
	if err != nil {
		return 0, false, fmt.Errorf("write the metadata: %w", err)
	}
	return store.PublishBundle(ctx, lease, featurestore.Bundle{
		LLM: i.llm, Bytes: data, Metadata: metadata, Verdict: verdict, Accepted: i.serve, MaxAge: i.maxAge,
	})
}
