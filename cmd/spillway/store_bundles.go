package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/featurestore"
)

func storeBundlesCommand() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "bundles [LLM]",
		Short: "List the bundles that refits ended with",
		Long: `List the newest bundles of one LLM, or of all: the version, whether the gate
accepted it and why not, and which one is served.`,
		Example: `  DATABASE_URL=postgres://... spillway store bundles
  DATABASE_URL=postgres://... spillway store bundles qwen3-32b --json`,
		Args: oneLLM,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return fmt.Errorf("--limit: %d must be at least 1", limit)
			}
			store, err := askStore(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			list, err := listBundles(cmd.Context(), store, strings.Join(args, ""), limit)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
			}
			printBundles(cmd, list)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&limit, "limit", 20, "list the newest, at most this many")
	return cmd
}

// oneLLM takes the name of an LLM, or nothing.
func oneLLM(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("want one LLM or none, not %d arguments: %s", len(args), cmd.UseLine())
	}
	return nil
}

// listedBundle is one line of the list.
type listedBundle struct {
	LLM       string    `json:"llm"`
	Version   int64     `json:"version"`
	Accepted  bool      `json:"accepted"`
	Served    bool      `json:"served"`
	Pinned    bool      `json:"pinned"` // served, and until it is released
	CreatedAt time.Time `json:"created_at"`
	EmptiedAt time.Time `json:"emptied_at,omitzero"` // when retention dropped its bytes: no way back to it
	Reasons   []string  `json:"reasons"`             // of a refusal
}

func listBundles(ctx context.Context, store *featurestore.Store, llm string, limit int) ([]listedBundle, error) {
	bundles, err := store.Bundles(ctx, llm, limit)
	if err != nil {
		return nil, err
	}
	pointers, err := store.ServedLLMs(ctx)
	if err != nil {
		return nil, err
	}
	served := map[int64]featurestore.Pointer{}
	for _, p := range pointers {
		served[p.Version] = p
	}
	list := make([]listedBundle, len(bundles))
	for i, b := range bundles {
		p, ok := served[b.Version]
		list[i] = listedBundle{LLM: b.LLM, Version: b.Version, Accepted: b.Accepted, Served: ok, Pinned: p.Pinned,
			CreatedAt: b.CreatedAt, EmptiedAt: b.EmptiedAt, Reasons: []string{}}
		verdict := struct{ Reasons *[]string }{&list[i].Reasons}
		if err := json.Unmarshal(b.Verdict, &verdict); err != nil {
			return nil, fmt.Errorf("the verdict on bundle %d: %w", b.Version, err)
		}
	}
	return list, nil
}

func printBundles(cmd *cobra.Command, list []listedBundle) {
	out := cmd.OutOrStdout()
	if len(list) == 0 {
		fmt.Fprintln(out, "no bundles: no refit has come to a verdict yet")
	}
	for _, b := range list {
		says := []string{"refused"}
		if b.Accepted {
			says[0] = "accepted"
		}
		if b.Served {
			says = append(says, "served")
		}
		if b.Pinned {
			says = append(says, "pinned")
		}
		if !b.EmptiedAt.IsZero() {
			says = append(says, "bytes dropped")
		}
		fmt.Fprintf(out, "%7d  %s  %s: %s", b.Version, b.CreatedAt.Format(time.DateTime), b.LLM, strings.Join(says, ", "))
		if len(b.Reasons) > 0 {
			fmt.Fprintf(out, " (%s)", strings.Join(b.Reasons, "; "))
		}
		fmt.Fprintln(out)
	}
}

func storeRollbackCommand() *cobra.Command {
	var release, dry bool
	cmd := &cobra.Command{
		Use:   "rollback LLM VERSION",
		Short: "Serve an earlier bundle again, and keep it served",
		Long: `Serve an LLM with an earlier accepted bundle again. It stays served until
"rollback --release": refits go on and store their verdicts, and judge it beside
them, but don't move it. It goes stale like any other when it is found no better
than the prior. After the release the next accepted refit is served.`,
		Example: `  DATABASE_URL=postgres://... spillway store rollback qwen3-32b 41
  DATABASE_URL=postgres://... spillway store rollback --dry-run qwen3-32b 41
  DATABASE_URL=postgres://... spillway store rollback --release qwen3-32b`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case release && len(args) != 1:
				return fmt.Errorf("--release wants one LLM, not %d arguments: spillway store rollback --release LLM", len(args))
			case !release && len(args) != 2:
				return fmt.Errorf("want LLM and VERSION, not %d arguments: %s", len(args), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			llm := args[0]
			if release {
				return releasePin(cmd, llm, dry)
			}
			version, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || version < 1 {
				return fmt.Errorf("VERSION %q is not a bundle's number: \"spillway store bundles %s\" lists them", args[1], llm)
			}
			store, err := askStore(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			if dry {
				return dryRollback(cmd, store, llm, version)
			}
			err = store.Rollback(cmd.Context(), llm, version)
			if errors.Is(err, featurestore.ErrNotFound) {
				return fmt.Errorf("%w: \"spillway store bundles %s\" lists what there is", err, llm)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is served with bundle %d until \"spillway store rollback --release %s\"\n", llm, version, llm)
			return nil
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be served, and change nothing")
	cmd.Flags().BoolVar(&release, "release", false, "let refits move what is served again")
	return cmd
}

// dryRollback says what a rollback would do, by the rules of the real one.
func dryRollback(cmd *cobra.Command, store *featurestore.Store, llm string, version int64) error {
	now, err := store.CheckRollback(cmd.Context(), llm, version)
	if errors.Is(err, featurestore.ErrNotFound) {
		return fmt.Errorf("%w: \"spillway store bundles %s\" lists what there is", err, llm)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "a dry run: %s is served with bundle %d now, and would be with bundle %d\n", llm, now, version)
	return nil
}

func releasePin(cmd *cobra.Command, llm string, dry bool) error {
	store, err := askStore(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	if dry {
		p, err := store.ServedPointer(cmd.Context(), llm)
		switch {
		case err != nil:
			return err
		case !p.Pinned:
			return fmt.Errorf("release what %s is served with: %w", llm, featurestore.ErrNotPinned)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "a dry run: %s is pinned to bundle %d now, and would not be\n", llm, p.Version)
		return nil
	}
	if err := store.Release(cmd.Context(), llm); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the next accepted refit of %s is served\n", llm)
	return nil
}
