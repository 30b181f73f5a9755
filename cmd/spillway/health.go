package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/predictor"
)

func healthCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health ADDRESS",
		Short: "Ask a running process whether it is well",
		Long: `Ask a router, a predictor, a trainer or a simulated endpoint whether it is well.
Exit code 0 means yes. ADDRESS is an http URL of an admin listener (its /readyz is
asked when no path is given), or where a predictor listens: unix:///path or
host:port. There the answer is no unless every LLM is served by the bundle that is
published for it, still fresh: one that is untrained, stale or failed is named
with its reason. Ask /healthz for the life of the process alone.`,
		Example: `  spillway health http://127.0.0.1:8081
  spillway health http://127.0.0.1:8081/healthz
  spillway health unix:///run/spillway/predictor.sock`,
		Args: oneArg("ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			said, err := askHealth(ctx, args[0])
			if said != "" {
				fmt.Fprintln(cmd.OutOrStdout(), said)
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for an answer")
	return cmd
}

func askHealth(ctx context.Context, address string) (string, error) {
	if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		return askPredictor(ctx, address)
	}
	if _, path, _ := strings.Cut(strings.SplitN(address, "://", 2)[1], "/"); path == "" {
		address = strings.TrimRight(address, "/") + "/readyz"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fmt.Errorf("ADDRESS %q can't be read: %w", address, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("nobody answers: %w", err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	said := strings.TrimSpace(string(body))
	if res.StatusCode != http.StatusOK {
		return said, fmt.Errorf("%s answers %s", address, res.Status)
	}
	return said, nil
}

func askPredictor(ctx context.Context, address string) (string, error) {
	client, err := predictor.Dial(address)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.Ready(ctx); err != nil {
		return "", fmt.Errorf("nobody answers at %s", address)
	}
	status, err := client.Status(ctx)
	if err != nil {
		return "", err
	}
	if len(status.LLMs) == 0 {
		return "", errors.New("untrained: the predictor is up, and no bundle is published yet")
	}
	var lines, wrong []string
	for _, l := range status.LLMs {
		if l.State == predictor.Serving {
			lines = append(lines, stateLine(l))
		} else {
			wrong = append(wrong, stateLine(l))
		}
	}
	if status.SourceError != "" {
		lines = append(lines, "it can't ask what is published: "+status.SourceError)
	}
	if len(wrong) > 0 {
		return strings.Join(lines, "\n"), errors.New(strings.Join(wrong, "; "))
	}
	return strings.Join(lines, "\n"), nil
}

// stateLine says how one LLM is served, and why not otherwise.
func stateLine(l predictor.LLMStatus) string {
	line := fmt.Sprintf("%s: %s, bundle %d", l.LLM, l.State, l.Info.Bundle)
	switch {
	case l.LastError != "":
		line += " (" + l.LastError + ")"
	case l.State == predictor.Stale:
		line += fmt.Sprintf(" (validated %s, good for %s)", l.ValidatedAt.Format(time.DateTime), l.MaxAge)
	}
	return line
}
