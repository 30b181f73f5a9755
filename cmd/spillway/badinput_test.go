package main

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mistake is a wrong use of the binary.
type mistake struct {
	name     string
	database string
	args     []string
	config   string   // of --config, where it is not empty
	says     []string // what the one line on standard error must hold
}

// check makes the mistake: one line that names it, exit code 1, nothing on
// standard output.
func (m mistake) check(t *testing.T) {
	t.Helper()
	args := m.args
	if m.config != "" {
		args = append(args[:len(args):len(args)], "--config", write(t, "spillway.yaml", m.config))
	}
	stdout, stderr, code := run(t, m.database, args...)
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if !strings.HasPrefix(stderr, "spillway: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("want one line on standard error, got:\n%s", stderr)
	}
	for _, want := range m.says {
		if !strings.Contains(stderr, want) {
			t.Errorf("want %q in: %s", want, stderr)
		}
	}
	if stdout != "" {
		t.Errorf("standard output is not empty: %s", stdout)
	}
}

func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, config string
		says         []string
	}{
		{"unknown key", "log: {level: info}\nrouter:\n  forcast: {deadline: 5ms}\n", []string{`"router.forcast"`, "line 3", "forecast"}},
		{"unknown key in a list", "router:\n  endpoints:\n    - url: http://127.0.0.1:1\n    - {urls: x}\n", []string{`"router.endpoints[1].urls"`, "line 4"}},
		{"unknown section", "ruoter: {}\n", []string{`"ruoter"`, "line 1", "router"}},
		{"text for a number", "router:\n  max_body_bytes: lots\n", []string{"line 2", "router.max_body_bytes", "whole number", `"lots"`}},
		{"fraction for a count", "trainer: {trees: 1.5}\n", []string{"trainer.trees", "whole number"}},
		{"negative seed", "trainer: {seed: -1}\n", []string{"trainer.seed", "from 0"}},
		{"word for a switch", "router: {ask_usage: perhaps}\n", []string{"router.ask_usage", "true or false"}},
		{"list for a value", "router: {listen: [a, b]}\n", []string{"router.listen", "not a list"}},
		{"value for a section", "router: 8080\n", []string{"line 1", "router: want keys below it"}},
		{"value for a list", "router: {endpoints: http://127.0.0.1:1}\n", []string{"router.endpoints", "want a list"}},
		{"nothing but a word", "hello\n", []string{"the file", "keys"}},
		{"key given twice", "router:\n  mode: live\n  mode: shadow\n", []string{"line 3", `"mode"`, "line 2"}},
		{"no YAML", "router: [1, 2\n", []string{"line 1"}},
		{"bad duration", "router:\n  first_byte_timeout: 5 parsecs\n", []string{"line 2", "router.first_byte_timeout", "duration", `"5 parsecs"`}},
		{"duration without a unit", "router:\n  scrape: {interval: 5}\n", []string{"router.scrape.interval", "duration"}},
		{"fraction for a duration", "router:\n  scrape: {interval: 5.5}\n", []string{"router.scrape.interval", "duration"}},
		{"share above 1", "router: {complete_share: 7}\n", []string{"router.complete_share", "0 to 1"}},
		{"probability above 1", "router: {settings: {exploration: 2}}\n", []string{"router.settings.exploration"}},
		{"threshold of nothing", "router: {settings: {sticky_share: 0}}\n", []string{"router.settings.sticky_share"}},
		{"deadline of nothing", "router: {forecast: {deadline: 0s}}\n", []string{"router.forecast.deadline"}},
		{"scrapes always dated", "router: {scrape: {interval: 10s, max_age: 10s}}\n", []string{"router.scrape.max_age", "2 scrape intervals"}},
		{"scrapes dated when they come", "router: {scrape: {timeout: 10s}}\n", []string{"router.scrape.timeout", "router.scrape.max_age"}},
		{"a deadline that no request lives to see", "router: {first_byte_timeout: 1s, forecast: {deadline: 1s}}\n", []string{"router.forecast.deadline", "router.first_byte_timeout"}},
		{"back at once", "router: {forecast: {return_hold: 200ms}}\n", []string{"router.forecast.return_hold", "router.forecast.probe_interval"}},
		{"bundles that one refit outlives", "trainer: {schedule: \"@every 10m\", max_age: 15m}\n", []string{"trainer.max_age", "2 refit intervals", "20m"}},
		{"bundles fetched too late", "predictor: {poll_interval: 1h}\n", []string{"predictor.poll_interval", "trainer.schedule"}},
		{"rows dropped before they are learned from", "store: {retention: 24h}\n", []string{"store.retention", "trainer.window"}},
		{"canary of nobody", "router: {mode: canary, canary: 0}\n", []string{"router.canary", "above 0 and below 1"}},
		{"canary of all", "router: {canary: 1}\n", []string{"router.canary", "below 1"}},
		{"negative weight", "router: {settings: {eviction_weight: -3}}\n", []string{"router.settings.eviction_weight", "from 0"}},
		{"shedding that never ends", "router: {settings: {shed_excess: .inf}}\n", []string{"router.settings.shed_excess", "from 0"}},
		{"negative time", "router: {idle_timeout: -1s}\n", []string{"router.idle_timeout", "positive"}},
		{"tiny spool", "store: {spool_bytes: 10}\n", []string{"store.spool_bytes", "1048576"}},
		{"unknown profile", "profile: abacus\n", []string{"profile:", `"abacus"`, defaultProfile}},
		{"unknown profile of a class", "classes: {fast: abacus}\n", []string{"classes.fast", `"abacus"`}},
		{"unknown policy", "router: {policy: luck}\n", []string{"router.policy", `"luck"`, "predicted"}},
		{"unknown fallback", "router: {fallback: luck}\n", []string{"router.fallback", `"luck"`, "auto"}},
		{"unknown mode", "router: {mode: brave}\n", []string{"router.mode", `"brave"`, "live"}},
		{"unknown log level", "log: {level: loud}\n", []string{"log", `"loud"`, "debug"}},
		{"unknown evaluator", "predictor: {evaluator: tea}\n", []string{"predictor.evaluator", "leaves"}},
		{"no schedule", "trainer: {schedule: sometimes}\n", []string{"trainer.schedule", `"sometimes"`}},
		{"endpoint without a scheme", "router: {endpoints: [{url: \"127.0.0.1:8000\"}]}\n", []string{"router.endpoints[0]", `"127.0.0.1:8000"`, "http://"}},
		{"no listen", "router: {listen: \"\"}\n", []string{"router.listen", "empty", "host:port"}},
		{"listen without a port", "router: {listen: home}\n", []string{"router.listen", `"home"`, "host:port"}},
		{"admin on no port", "router: {admin: \"127.0.0.1:99999\"}\n", []string{"router.admin", "99999", "host:port"}},
		{"forecast address of another kind", "router: {forecast: {address: http://127.0.0.1:1}}\n", []string{"router.forecast.address", "http://127.0.0.1:1", "unix:///path or host:port"}},
		{"relative socket", "predictor: {listen: unix://run/x.sock}\n", []string{"predictor.listen", "unix://run/x.sock", "unix:///path"}},
		{"negative setting", "router: {settings: {max_ttft_penalty: -1}}\n", []string{"router.settings.max_ttft_penalty", "from 0"}},
		{"setting that is no number", "router: {settings: {tokens_per_request: .nan}}\n", []string{"router.settings.tokens_per_request", "from 0"}},
		{"no time for an answer", "router: {answer_timeout: 0s}\n", []string{"router.answer_timeout", "positive"}},
		{"handover in no folder", "router: {handover: handover.sock}\n", []string{"router.handover", "absolute path"}},
		{"handover too long", "router: {handover: /" + strings.Repeat("x", 110) + "}\n", []string{"router.handover", "103 bytes"}},
		{"negative drain delay", "router: {drain_delay: -1s}\n", []string{"router.drain_delay", "negative"}},
		{"peers that could not answer", "router: {peers: [\"10.0.0.2:8084\"]}\n", []string{"router.share_listen", "router.peers"}},
		{"a peer without a port", "router: {peers: [home], share_listen: \"127.0.0.1:0\", share_salt_file: x}\n", []string{"router.peers[0]", `"home"`, "host:port"}},
		{"sharing without a salt", "router: {share_listen: \"127.0.0.1:8084\"}\n", []string{"router.share_salt_file", "empty", "router.share_listen"}},
		{"a snapshot without a salt", "router: {snapshot_file: x}\n", []string{"router.share_salt_file", "empty", "router.snapshot_file"}},
		{"sharing without a port", "router: {share_listen: home, share_salt_file: x}\n", []string{"router.share_listen", `"home"`, "host:port"}},
		{"TLS of another kind", "router: {share_tls: maybe}\n", []string{"router.share_tls", `"maybe"`, "mutual"}},
		{"TLS without a certificate", "router: {share_tls: server}\n", []string{"router.share_cert_file", "share_tls"}},
		{"mutual TLS without an authority", "router: {share_tls: mutual, share_cert_file: a, share_key_file: b}\n", []string{"router.share_ca_file", "share_tls"}},
		{"a certificate for plain text", "router: {share_cert_file: a}\n", []string{"router.share_tls", "server"}},
		{"less than no room", "router: {max_held_bytes: 100000000}\n", []string{"router.max_held_bytes", "twice max_body_bytes"}},
		{"fewer than no requests", "router: {max_requests: -1}\n", []string{"router.max_requests", "negative"}},
		{"fewer than none of a client", "router: {max_per_client: -1}\n", []string{"router.max_per_client", "negative"}},
		{"access of another kind", "access: {admin_tls: maybe}\n", []string{"access.admin_tls", `"maybe"`, "mutual"}},
		{"an admin listener without a certificate", "access: {admin_tls: server}\nrouter: {endpoints: [{url: http://a:1}]}\n", []string{"access.cert_file", "access.admin_tls"}},
		{"mutual access without an authority", "access: {predictor_tls: mutual, cert_file: a, key_file: b}\n", []string{"access.ca_file", "access.predictor_tls"}},
		{"a token for a socket", "access: {predictor_token_file: a}\nrouter: {endpoints: [{url: http://a:1}]}\n", []string{"access.predictor_token_file", "router.forecast.address", "host:port"}},
		{"spans to nowhere", "tracing: {endpoint: collector}\n", []string{"tracing.endpoint", "http://127.0.0.1:4317"}},
		{"spans by another protocol", "tracing: {protocol: smoke}\n", []string{"tracing.protocol", `"smoke"`, "grpc"}},
		{"more spans than requests", "tracing: {sample_ratio: 2}\n", []string{"tracing.sample_ratio", "0 to 1"}},
		{"silence between two words", "router: {peer_silence: 400ms}\n", []string{"router.peer_silence", "1s"}},
		{"snapshots too old when written", "router: {snapshot_max_age: 0s}\n", []string{"router.snapshot_max_age", "positive"}},
		{"no name", "router: {name: \"\"}\n", []string{"router.name", "empty"}},
		{"no endpoints", "log: {level: info}\n", []string{"router.endpoints", "router.endpoints_file", "--config"}},
		{"a watch of nothing", "router: {discovery: {kubernetes: [{namespace: llm}]}}\n", []string{"router.discovery.kubernetes[0].service", "selector"}},
		{"a selector nobody can read", "router: {discovery: {kubernetes: [{service: a}, {selector: a=b=c}]}}\n", []string{"router.discovery.kubernetes[1].selector", `"a=b=c"`}},
		{"an unknown key of a watch", "router: {discovery: {kubernetes: [{servce: a}]}}\n", []string{`"router.discovery.kubernetes[0].servce"`, "line 1", "metrics_port"}},
		{"a Service twice", "router: {discovery: {kubernetes: [{service: a}, {service: a, class: x}]}}\n", []string{"router.discovery.kubernetes[1]", "twice"}},
		{"a name without a port", "router: {discovery: {dns: [{name: vllm.test}]}}\n", []string{"router.discovery.dns[0].port"}},
		{"a trait no endpoint has", "router: {discovery: {dns: [{name: vllm.test, port: 1, metrics_path: m}]}}\n", []string{"router.discovery.dns[0].metrics_path", `"m"`}},
		{"an endpoint's profile that is none", "router: {endpoints: [{url: http://a:1}, {url: http://b:1, profile: abacus}]}\n", []string{"router.endpoints[1].profile", `"abacus"`, defaultProfile}},
		{"a profile that is half a number slower", "router: {endpoints: [{url: http://a:1, profile: " + defaultProfile + "-x2fast}]}\n", []string{"router.endpoints[0].profile", "-x2fast"}},
		{"profiles of what is found that are none", "router: {discovery: {dns: [{name: vllm.test, port: 1, profile: abacus}]}}\n", []string{"router.discovery.dns[0].profile", `"abacus"`}},
		{"two doors in one place", "router: {listen: \"127.0.0.1:8081\"}\n", []string{"router.admin", `"127.0.0.1:8081"`, "router.listen"}},
		{"a door that is everywhere", "router: {extproc_listen: \":8080\"}\n", []string{"router.extproc_listen", `":8080"`, "router.listen"}},
		{"a name that gateways would have to look up", "router: {extproc_listen: \":9002\", endpoints: [{url: \"http://[::1]:1\"}, {url: http://engine:1}]}\n", []string{"router.endpoints[1].url", `"http://engine:1"`, "router.extproc_listen", "IP address"}},
		{"a second document", "router: {mode: live}\n---\nrouter: {mode: shadow}\n", []string{"line 3: a second document"}},
		{"endpoint listed twice", "router: {endpoints: [{url: http://a:1}, {url: http://a:1}]}\n", []string{"router.endpoints[1]", "a:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mistake{args: []string{"router", "--check-config"}, config: c.config, says: append(c.says, "spillway.yaml: ")}.check(t)
		})
	}
}

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	good := write(t, "spillway.yaml", "router:\n  endpoints: [{url: http://127.0.0.1:1}]\n  settings:\n")
	for _, verb := range []string{"router", "predictor", "trainer"} {
		if out := must(t, "", verb, "--check-config", "--config", good); !strings.Contains(out, "good") {
			t.Errorf("%s --check-config prints %q", verb, out)
		}
		if verb == "router" { // the defaults lack one thing: where to send requests
			mistake{args: []string{verb, "--check-config"}, says: []string{"defaults: ", "router.endpoints", "--config"}}.check(t)
		} else {
			must(t, "", verb, "--check-config") // the defaults are good as well
			must(t, "", verb, "--check-config", "--config", write(t, "spillway.yaml", "log: {level: warn}\n"))
		}
		mistake{args: []string{verb, "--check-config"}, config: "x: 1\n", says: []string{`"x"`}}.check(t)
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	inUse := taken.Addr().String()
	_, port, err := net.SplitHostPort(inUse)
	if err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(t.TempDir(), "absent")
	const nowhere = "postgres://spillway:secret@127.0.0.1:1/spillway"
	// Only what is wrong may be said, so that one line is left.
	const quiet = "log: {level: error}\n"
	const someEndpoint = "  endpoints: [{url: http://127.0.0.1:1, llms: [x]}]\n"
	const unknownID = "0193750b-8f3a-7cc4-9d55-0a1b2c3d4e5f"

	cases := []mistake{
		{name: "unreachable database", database: nowhere, args: []string{"store", "status"}, says: []string{"DATABASE_URL", "127.0.0.1:1"}},
		{name: "unreachable database, migrate", database: nowhere, args: []string{"store", "migrate"}, says: []string{"DATABASE_URL", "127.0.0.1:1"}},
		{name: "unreachable database, trainer", database: nowhere, args: []string{"trainer", "--once"}, says: []string{"DATABASE_URL", "127.0.0.1:1"}},
		{name: "unreachable database, explain", database: nowhere, args: []string{"explain", unknownID}, says: []string{"DATABASE_URL", "127.0.0.1:1"}},
		{name: "another database's URL", database: "mysql://x/y", args: []string{"store", "status"}, says: []string{"DATABASE_URL", "postgres://"}},
		{name: "no URL", database: "nonsense", args: []string{"predictor"}, says: []string{"DATABASE_URL", "postgres://"}},
		{name: "no database of that name", database: strings.Replace(database, "/test_", "/absent_", 1), args: []string{"store", "status"}, says: []string{"DATABASE_URL", "absent_"}},

		{name: "listen in use", database: database, args: []string{"router"}, config: quiet + "router:\n  admin: \"\"\n  listen: " + inUse + "\n" + someEndpoint, says: []string{"router.listen", inUse, "in use"}},
		{name: "admin in use", database: database, args: []string{"router"}, config: quiet + "router:\n  listen: 127.0.0.1:0\n  admin: " + inUse + "\n" + someEndpoint, says: []string{"router.admin", inUse, "in use"}},
		{name: "listen nowhere", database: database, args: []string{"router"}, config: quiet + "router:\n  admin: \"\"\n  listen: home\n" + someEndpoint, says: []string{"router.listen", "home", "host:port"}},
		{name: "no endpoints", database: database, args: []string{"router"}, config: quiet + "router: {endpoints: []}\n", says: []string{"router.endpoints", "router.endpoints_file"}},
		{name: "no cluster", database: database, args: []string{"router"}, config: quiet + "router: {listen: 127.0.0.1:0, discovery: {kubernetes: [{service: a}]}}\n", says: []string{"router.discovery.kubeconfig", "no Pod"}},
		{name: "no kubeconfig", database: database, args: []string{"router"}, config: quiet + "router: {listen: 127.0.0.1:0, discovery: {kubeconfig: " + absent + ", kubernetes: [{service: a}]}}\n", says: []string{"router.discovery.kubeconfig", absent}},
		{name: "no spool", database: database, args: []string{"router"}, config: quiet + "store: {spool_dir: /dev/null/spool}\nrouter:\n  listen: 127.0.0.1:0\n" + someEndpoint, says: []string{"store.spool_dir", "/dev/null"}},
		{name: "no folder for a snapshot", database: database, args: []string{"router"}, config: quiet + "router:\n  listen: 127.0.0.1:0\n  snapshot_file: " + absent + "/x\n  share_salt_file: " + write(t, "salt", "0123456789abcdef") + "\n" + someEndpoint, says: []string{"router.snapshot_file", absent, "can't be written"}},
		{name: "predictor's listen in use", database: database, args: []string{"predictor"}, config: quiet + "predictor: {admin: \"\", listen: " + inUse + "}\n", says: []string{"predictor.listen", inUse, "in use"}},
		{name: "predictor's admin in use", database: database, args: []string{"predictor"}, config: quiet + "predictor: {listen: 127.0.0.1:0, admin: " + inUse + "}\n", says: []string{"predictor.admin", inUse, "in use"}},
		{name: "trainer's admin in use", database: database, args: []string{"trainer"}, config: quiet + "trainer: {admin: " + inUse + "}\n", says: []string{"trainer.admin", inUse, "in use"}},
		{name: "fleet's port in use", args: []string{"fleet", "--endpoints", "1", "--port", port}, says: []string{"--port", inUse, "in use"}},

		{name: "unknown profile", args: []string{"fleet", "--profile", "abacus"}, says: []string{"--profile", `"abacus"`, defaultProfile}},
		{name: "no endpoints in a fleet", args: []string{"fleet", "--endpoints", "0"}, says: []string{"--endpoints"}},
		{name: "unknown workload", args: []string{"load", "--workload", "dreams"}, says: []string{"--workload", `"dreams"`, "mixed"}},
		{name: "nothing to send", args: []string{"load"}, says: []string{"--trace", "--workload"}},
		{name: "trace and workload", args: []string{"load", "--workload", "mixed", "--trace", absent}, says: []string{"--trace", "--workload"}},
		{name: "workload and window", args: []string{"load", "--workload", "mixed", "--window", "1h"}, says: []string{"--workload", "--window", "exclude"}},
		{name: "LLM without a window", args: []string{"load", "--workload", "mixed", "--llm", "x"}, says: []string{"--llm", "--window"}},
		{name: "unreachable database, load", database: nowhere, args: []string{"load", "--window", "1h"}, says: []string{"DATABASE_URL", "127.0.0.1:1"}},
		{name: "no rows to send", database: database, args: []string{"load", "--window", "1h"}, says: []string{"--window", "DATABASE_URL", "no decisions"}},
		{name: "no rows to simulate", database: database, args: []string{"simulate", "--window", "1h"}, says: []string{"--window", "DATABASE_URL", "no decisions"}},
		{name: "no rows to fit", database: database, args: []string{"fit-profile", "--format", "outcomes", "--window", "1h"}, says: []string{"--window", "DATABASE_URL", "no decisions"}},
		{name: "missing trace", args: []string{"load", "--trace", absent}, says: []string{"--trace", absent}},
		{name: "no trace", args: []string{"load", "--trace", write(t, "poem.txt", "so much depends\nupon\n")}, says: []string{"--trace", "poem.txt", "TIMESTAMP,ContextTokens,GeneratedTokens"}},
		{name: "no URL to load", args: []string{"load", "--workload", "mixed", "--url", "home"}, says: []string{"--url", `"home"`, "http://"}},
		{name: "no API to load", args: []string{"load", "--workload", "mixed", "--api", "tea"}, says: []string{"--api", `"tea"`, "chat"}},
		{name: "no place for records", args: []string{"load", "--workload", "mixed", "--out", filepath.Join(absent, "x")}, says: []string{"--out", absent}},
		{name: "missing configuration", args: []string{"router", "--config", absent}, says: []string{"--config", absent}},
		{name: "wrong cron", database: database, args: []string{"trainer", "--cron", "sometimes"}, says: []string{"--cron", `"sometimes"`}},

		{name: "unknown decision", database: database, args: []string{"explain", unknownID}, says: []string{unknownID, "not found"}},
		{name: "no decision's id", database: database, args: []string{"explain", "yesterday"}, says: []string{`"yesterday"`}},
		{name: "no id", database: database, args: []string{"explain"}, says: []string{"explain ID"}},
		{name: "nobody to ask", args: []string{"health"}, says: []string{"health ADDRESS"}},
		{name: "nobody at the address", args: []string{"health", "http://127.0.0.1:1"}, says: []string{"127.0.0.1:1"}},
		{name: "no predictor at the address", args: []string{"health", "--timeout", "300ms", "127.0.0.1:1"}, says: []string{"127.0.0.1:1"}},
		{name: "unknown verb", args: []string{"rooter"}, says: []string{`"rooter"`, "router"}},
		{name: "unknown verb below a verb", args: []string{"store", "mirgate"}, says: []string{`"mirgate"`}},
		{name: "unknown flag", args: []string{"router", "--confg", "x"}, says: []string{"--confg"}},
		{name: "unknown argument", args: []string{"router", "now"}, says: []string{`"now"`}},
	}
	for _, verb := range [][]string{{"store", "status"}, {"store", "migrate"}, {"predictor"}, {"trainer", "--once"}, {"explain", unknownID}} {
		cases = append(cases, mistake{name: "no DATABASE_URL, " + verb[0] + strconv.Itoa(len(cases)), args: verb, says: []string{"DATABASE_URL is empty", "postgres://"}})
	}
	cases = append(cases, mistake{name: "no DATABASE_URL, router", args: []string{"router"}, config: "router:\n  listen: 127.0.0.1:0\n" + someEndpoint, says: []string{"DATABASE_URL is empty"}})
	t.Run("mistakes", func(t *testing.T) { // waits for the parallel ones, which need the taken port
		for _, m := range cases {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				m.check(t)
			})
		}
	})
}
