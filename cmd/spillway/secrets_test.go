package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/predictor"
)

// identity writes an authority, and a certificate of 127.0.0.1 that it signed,
// as PEM files of one folder.
func identity(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	var signer *ecdsa.PrivateKey
	var parent *x509.Certificate
	for i, name := range []string{"ca", "own"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: i == 0,
			KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if i == 0 {
			signer, parent = key, template
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if parent, err = x509.ParseCertificate(der); err != nil {
				t.Fatal(err)
			}
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folder
}

// Secrets that pass through, or are asked for, are told to nobody: not to logs
// at debug, metrics, the console, the store, nor to who traces. And who shows
// none is told nothing at all.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"an API key":                   "sk-hollow-mill-4242424242",
		"the text of a prompt":         "the-weir-of-hollow-mill",
		"the database's password":      "pw-of-the-lock-keeper",
		"the token of admin listeners": "token-for-the-upper-lock",
		"the token of the predictor":   "token-for-the-lower-lock",
		"a user of the API":            "user-jane-miller",
	}
	base := newDatabase(t)
	must(t, base, "store", "migrate")
	_, publish := publisher(t, base)
	publish(featurestore.Bundle{LLM: llm, Bytes: smallBundle(t), Accepted: true})
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), secrets["the database's password"])
	database := u.String()

	folder := identity(t)
	adminToken := write(t, "admin", secrets["the token of admin listeners"]+"\n")
	predictorToken := write(t, "predictor", secrets["the token of the predictor"]+"\n")
	spans := newReceiver(t)
	common := fmt.Sprintf(`
log: {level: debug}
access: {admin_tls: mutual, admin_token_file: %q, predictor_tls: mutual, predictor_token_file: %q,
  cert_file: %q, key_file: %q, ca_file: %q}
tracing: {endpoint: %q, sample_ratio: 1}
trainer: {admin: ""}
`, adminToken, predictorToken, filepath.Join(folder, "own.crt"), filepath.Join(folder, "own.key"), filepath.Join(folder, "ca.crt"), spans.url)
	config := func(parts string) string { return write(t, "spillway.yaml", common+parts) }

	forecasts := start(t, database, "predictor", "--config", config("predictor: {listen: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}\n"))
	address := attribute(t, forecasts.logged("predictor serves"), "addr")
	forecastsAdmin := "https://" + attribute(t, forecasts.logged("metrics and health are served"), "admin")
	engine := overhear(t, startFleet(t, 1)[0])
	routerConfig := config(fmt.Sprintf(`router: {name: e2e, listen: "127.0.0.1:0", admin: "127.0.0.1:0", endpoints: %s,
  forecast: {address: %q, deadline: 2s, probe_interval: 100ms, return_hold: 100ms}}
`, listed([]string{engine.url}), address))
	process := start(t, database, "router", "--config", routerConfig)
	serves := process.logged("router serves")
	router := &routerProcess{process, "http://" + attribute(t, serves, "listen"), "https://" + attribute(t, serves, "admin")}

	// The router shows what the predictor asks for: forecasts decide.
	eventually(t, func(context.Context) error {
		if a := router.served(t); a.header.Get("X-Spillway-Policy") != "predicted" {
			return fmt.Errorf("decided by %s", a.header.Get("X-Spillway-Policy"))
		}
		return nil
	})
	body := strings.Replace(strings.Replace(chat(`,"user":"`+secrets["a user of the API"]+`"`), "how deep", secrets["the text of a prompt"]+" how deep", 1), `"max_tokens":8,`, `"max_tokens":8,"cache_salt":"`+secrets["a user of the API"]+`",`, 1)
	var ids []string
	for _, b := range []string{body, body[:len(body)-1], strings.Replace(body, llm, secrets["the text of a prompt"], 1), `{"model":"` + llm + `","messages":"` + secrets["the text of a prompt"] + `"}`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, router.front+"/v1/chat/completions?key="+secrets["an API key"], strings.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secrets["an API key"])
		req.Header.Set("X-Api-Key", secrets["an API key"])
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if id, _, ok := strings.Cut(res.Header.Get("X-Spillway-Decision"), ";"); ok && res.StatusCode == http.StatusOK {
			ids = append(ids, id)
		}
	}
	if len(ids) != 1 || engine.last("Authorization") != "Bearer "+secrets["an API key"] {
		t.Errorf("%d requests were answered; the engine was shown %q", len(ids), engine.last("Authorization"))
	}
	explained(t, base, ids[0]) // its rows are stored

	// Who shows nothing, or half of it.
	own, err := tls.LoadX509KeyPair(filepath.Join(folder, "own.crt"), filepath.Join(folder, "own.key"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	visit := func(url, token string, certificates ...tls.Certificate) (int, string) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	token := secrets["the token of admin listeners"]
	pages := map[string]string{"spans": ""}
	for _, at := range []string{router.admin + "/", router.admin + "/status.json", router.admin + "/metrics", router.admin + "/debug/pprof/cmdline",
		router.admin + "/decisions/" + ids[0], forecastsAdmin + "/metrics"} {
		if status, _ := visit(at, token); status != http.StatusForbidden {
			t.Errorf("%s without a certificate: %d", at, status)
		}
		for _, wrong := range []string{"", token + "x", secrets["the token of the predictor"]} {
			if status, _ := visit(at, wrong, own); status != http.StatusUnauthorized {
				t.Errorf("%s with the token %q: %d", at, wrong, status)
			}
		}
		status, text := visit(at, token, own)
		if status != http.StatusOK || text == "" {
			t.Errorf("%s: %d", at, status)
		}
		pages[at] = text
	}
	for _, at := range []string{router.admin + "/healthz", router.admin + "/readyz", forecastsAdmin + "/healthz"} {
		if status, text := visit(at, ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", at, status, text)
		}
	}

	// The verb health shows what its configuration says.
	must(t, "", "health", "--config", routerConfig, address)
	must(t, "", "health", "--config", routerConfig, router.admin+"/metrics")
	plain := strings.Replace(router.admin, "https", "http", 1)
	strangers := write(t, "spillway.yaml", fmt.Sprintf("access: {predictor_tls: server, ca_file: %q}\n", filepath.Join(identity(t), "ca.crt")))
	for why, args := range map[string][]string{
		"nobody answers":    {address},
		"want https://":     {"--config", routerConfig, plain + "/metrics"},
		"signed by unknown": {"--config", strangers, "--timeout", "2s", address},
		"unknown authority": {router.admin + "/metrics"},
	} {
		if out, said, code := run(t, "", append([]string{"health"}, args...)...); code != 1 || !strings.Contains(said, why) {
			t.Errorf("health %v: exit code %d, want %q: %s%s", args, code, why, out, said)
		}
	}
	stranger, err := predictor.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, err := stranger.Status(t.Context()); !errors.Is(err, predictor.ErrDown) {
		t.Errorf("a stranger asks the predictor: %v", err)
	}

	refit, said, code := run(t, database, "trainer", "--once", "--config", config(""))
	if code != 0 {
		t.Errorf("trainer: exit code %d: %s", code, said)
	}
	router.terminate()
	forecasts.terminate()
	router.wait()
	forecasts.wait()
	pages["the refit"] = refit + said
	pages["the router's log"] = router.stdout.String() + router.stderr.String()
	pages["the predictor's log"] = forecasts.stdout.String() + forecasts.stderr.String()
	pages["spans"] = spans.text(t)
	for name, text := range tables(t, base) {
		pages["table "+name] = text
	}
	if log := pages["the router's log"]; !strings.Contains(log, "level=DEBUG") || !strings.Contains(log, ids[0]) {
		t.Error("the log does not tell of requests, so what it does not say shows nothing")
	}
	if !strings.Contains(pages["table decisions"], ids[0]) || !strings.Contains(pages["spans"], ids[0]) {
		t.Error("neither the table nor the spans hold the decision, so what they do not say shows nothing")
	}
	for where, text := range pages {
		for what, secret := range secrets {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)} {
				if i := strings.Index(text, form); i >= 0 {
					t.Errorf("%s holds %s: %s", where, what, lastBytes(text[max(0, i-200):min(len(text), i+100)]))
				}
			}
		}
	}
}

// tables are all rows of all tables as text, bytes in hexadecimal.
func tables(t *testing.T, database string) map[string]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	all := map[string]string{}
	for _, name := range names {
		rows, err := conn.Query(t.Context(), "SELECT x::text FROM "+name+" x")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all[name] = strings.Join(lines, "\n")
	}
	return all
}
