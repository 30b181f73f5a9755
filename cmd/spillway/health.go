package main

import (
	"context"
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
host:port.`,
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
		return "up; no bundle is published yet", nil
	}
	var lines []string
	for _, l := range status.LLMs {
		line := fmt.Sprintf("%s: %s, bundle %d", l.LLM, l.State, l.Info.Bundle)
		if l.LastError != "" {
			line += " (" + l.LastError + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}
