package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/access"
	"github.com/spillway-llm/spillway/predictor"
)

func healthCommand() *cobra.Command {
	var timeout time.Duration
	var file string
	cmd := &cobra.Command{
		Use:   "health ADDRESS",
		Short: "Ask a running process whether it is well",
		Long: `Ask a router, a predictor, a trainer or a simulated endpoint whether it is well.
Exit code 0 means yes. ADDRESS is an http URL of an admin listener (its /readyz is
asked when no path is given), or where a predictor listens: unix:///path or
host:port. There the answer is no unless every LLM is served by the bundle that is
published for it, still fresh: one that is untrained, stale or failed is named
with its reason. Ask /healthz for the life of the process alone.

Where certificates or a token are asked for, --config names the file whose part
access says which to show.`,
		Example: `  spillway health http://127.0.0.1:8081
  spillway health http://127.0.0.1:8081/healthz
  spillway health unix:///run/spillway/predictor.sock
  spillway health --config spillway.yaml predictor.example.org:8090`,
		Args: oneArg("ADDRESS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := defaultConfig()
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return fmt.Errorf("--config: %w", err)
				}
				if c, err = parseConfig(text); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			said, err := askHealth(ctx, &c.Access, args[0])
			if said != "" {
				fmt.Fprintln(cmd.OutOrStdout(), said)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration file whose part access says what to show: certificate and token")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for an answer")
	return cmd
}

func askHealth(ctx context.Context, shows *AccessConfig, address string) (string, error) {
	if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		return askPredictor(ctx, shows, address)
	}
	caller, err := access.NewCaller(shows.admin(), slog.New(slog.DiscardHandler))
	if err != nil {
		return "", accessKey("admin", err)
	}
	client, err := caller.HTTPClient()
	if err != nil {
		return "", accessKey("admin", err)
	}
	if _, path, _ := strings.Cut(strings.SplitN(address, "://", 2)[1], "/"); path == "" {
		address = strings.TrimRight(address, "/") + "/readyz"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fmt.Errorf("ADDRESS %q can't be read: %w", address, err)
	}
	res, err := client.Do(req)
	if errors.Is(err, access.ErrPlainText) {
		return "", fmt.Errorf("ADDRESS %q: %w, as access.admin_tls is %q", address, access.ErrPlainText, shows.AdminTLS)
	}
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

func askPredictor(ctx context.Context, shows *AccessConfig, address string) (string, error) {
	caller, err := shows.caller(address, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	client, err := predictor.Dial(address, caller.DialOptions()...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.Ready(ctx); err != nil {
		return "", fmt.Errorf("nobody answers at %s%s", address, whyDown(ctx, client))
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

// whyDown is why a predictor could not be reached, as far as that is known, ready
// to follow who it is: a certificate that is not believed looks like nobody there.
func whyDown(ctx context.Context, client *predictor.Client) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := client.Status(ctx); errors.Is(err, predictor.ErrDown) {
		return ": " + err.Error()
	}
	return ""
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
