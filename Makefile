# Spillway. "make help" lists the targets.

SHELL      := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS  += --no-print-directory
.NOTPARALLEL:

GO         ?= go
FUZZTIME   ?= 1s
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS    := -X github.com/spillway-llm/spillway/internal/telemetry.version=$(VERSION)
STATICCHECK = $(GO) tool -modfile=tools/go.mod staticcheck

# The product has no cgo, and every target without it compiles each package once.
export CGO_ENABLED ?= 0

# VERBOSE=1 shows each command and each test.
Q := $(if $(VERBOSE),,@)
V := $(if $(VERBOSE),-v)

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z%_-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what is missing (Postgres server programs); quick when all is there
	$(Q)scripts/setup

.PHONY: demo
demo: setup build ## run the whole loop here: engines, router, predictor, store, trainer, load
	$(Q)bin/spillway demo

.PHONY: test
test: setup ## run every test
	$(Q)$(GO) test $(V) ./...

.PHONY: build
build: ## build bin/spillway, without cgo
	$(Q)$(GO) build -ldflags '$(LDFLAGS)' -o bin/spillway ./cmd/spillway

.PHONY: check
check: setup lint build commands check-tests check-fuzz verify ## everything a change must pass
	@echo "check: ok"

.PHONY: lint
lint: ## formatting, vet, staticcheck, import rules, notebooks without outputs
	$(Q)scripts/step gofmt scripts/check-format
	$(Q)scripts/step vet $(GO) vet ./...
	$(Q)scripts/step vet-tools $(GO) -C tools vet ./...
	$(Q)scripts/step staticcheck $(STATICCHECK) ./...
	$(Q)scripts/step layers $(GO) test -vet=off $(V) ./internal/layers
	$(Q)scripts/step notebooks scripts/check-notebooks

.PHONY: commands
commands: build # every make target and spillway verb named in the documents exists
	$(Q)scripts/step commands scripts/check-commands bin/spillway

.PHONY: check-tests
check-tests: # the concurrent packages under the race detector, the others without
	$(Q)scripts/step race scripts/check-tests race $(V)
	$(Q)scripts/step test scripts/check-tests plain $(V)

.PHONY: check-fuzz
check-fuzz:
	$(Q)scripts/step fuzz scripts/fuzz $(FUZZTIME)

.PHONY: notebooks
notebooks: setup build ## execute every notebook on a simulated log, from a file and from a store (installs Debian's Jupyter)
	$(Q)scripts/step notebooks scripts/notebooks $(PAGES)

.PHONY: test-console
test-console: ## the console in headless Chromium, with pictures in bin/console (installs Chromium, Node and npm)
	$(Q)scripts/test-console bin/console $(PAGES)

.PHONY: verify-deploy
verify-deploy: build ## chart, kustomize, Compose, image and alert rules: decoded, followed, run (minutes the first time: it compiles Helm; SHORT=1 does without)
	$(Q)scripts/step verify-deploy scripts/verify-deploy bin/spillway $(if $(SHORT),--short) $(V)

.PHONY: generate-deploy
generate-deploy: build ## write anew what of deploy/ is generated: the chart's copies, the kustomize bases
	$(Q)scripts/verify-deploy bin/spillway --write

.PHONY: verify-dashboards
verify-dashboards: setup build ## alert rules and their tests, and every expression of dashboards and rules against a short run (1 min; installs Debian's Prometheus)
	$(Q)scripts/step verify-dashboards scripts/verify-dashboards

AUDIT = $(GO) tool -modfile=tools/audit/go.mod

.PHONY: sbom
sbom: ## what is in the binary, with licences, as CycloneDX: bin/spillway.cdx.json
	@mkdir -p bin
	$(Q)$(AUDIT) cyclonedx-gomod app -json -licenses -main cmd/spillway -output bin/spillway.cdx.json .
	@echo "bin/spillway.cdx.json"

.PHONY: vulncheck
vulncheck: build ## known vulnerabilities of what the binary calls (asks vuln.go.dev, or GOVULNDB=file:///path)
	$(Q)$(AUDIT) govulncheck $(if $(GOVULNDB),-db '$(GOVULNDB)') -mode=binary bin/spillway

.PHONY: quickstart
quickstart: setup build ## execute the commands of the quick start as they stand there (3 min; make quickstart LIMIT=30 is short)
	$(Q)scripts/step quickstart scripts/quickstart $(LIMIT)

.PHONY: race
race: setup ## run every test under the race detector
	$(Q)CGO_ENABLED=1 $(GO) test -race $(V) ./...

.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME each (make fuzz FUZZTIME=1m)
	$(Q)scripts/fuzz $(FUZZTIME)

.PHONY: generate
generate: ## write generated code anew
	$(Q)$(GO) generate ./...

.PHONY: verify
verify: ## generated code is up to date
	$(Q)scripts/step verify scripts/check-generated

.PHONY: bench-hotpath
bench-hotpath: ## time and allocations of what runs once a request; writes nothing
	$(Q)$(GO) test -run '^$$' -bench . -benchmem ./router/ledger ./router/prefix ./router/policy ./internal/forest

.PHONY: bench-profiles
bench-profiles: ## how well fitted profiles predict measured rows they have not seen (needs SPILLWAY_DATA)
	$(Q)$(GO) run ./internal/bench/profiles --data '$(SPILLWAY_DATA)' --out docs/results

.PHONY: bench-engine
bench-engine: ## how well the simulated engine replays what real engines served (needs SPILLWAY_DATA)
	$(Q)$(GO) run ./internal/bench/engine --data '$(SPILLWAY_DATA)' --out docs/results

.PHONY: bench-published
bench-published: ## the published workloads in simulation, beside their published numbers (needs SPILLWAY_DATA; minutes)
	$(Q)$(GO) run ./internal/bench/published --data '$(SPILLWAY_DATA)' --out docs/results

.PHONY: bench-policies
bench-policies: ## predicted beside the better matched configuration, in many simulated worlds (needs SPILLWAY_DATA; minutes)
	$(Q)$(GO) run ./internal/bench/policies --data '$(SPILLWAY_DATA)' --out docs/results $(if $(ABLATE),--ablate)

.PHONY: bench-forecast
bench-forecast: ## forecasts on measured and simulated rows they have not seen, beside the prior, trees and a baseline (needs SPILLWAY_DATA; minutes)
	$(Q)$(GO) run ./internal/bench/forecast --data '$(SPILLWAY_DATA)' --out docs/results

.PHONY: bench-fleet
bench-fleet: ## requests simulated per second of CPU, and the cost of large fleets
	$(Q)$(GO) run ./internal/bench/fleet --out docs/results

.PHONY: bench-gbdt
bench-gbdt: ## training time, loss and memory of the forests beside XGBoost and scikit-learn, which it installs (minutes)
	$(Q)scripts/bench-gbdt-setup
	$(Q)$(GO) run ./internal/bench/gbdt --out docs/results

.PHONY: bench-gate
bench-gate: ## what the trainer's gate lets through of 1,000 bad refits, of empty ones and of good ones (minutes)
	$(Q)$(GO) run ./internal/bench/gate --out docs/results

.PHONY: bench-offpolicy
bench-offpolicy: ## estimators of other policies: coverage of a known truth, CPU and memory of a log of 500,000 decisions (minutes)
	$(Q)$(GO) run ./internal/bench/offpolicy --out docs/results

.PHONY: bench-evaluate
bench-evaluate: ## how far each instrument can be trusted that says what another policy would do: 104 pairs whose truth is known (25 minutes)
	$(Q)$(GO) run ./internal/bench/evaluate --out docs/results

.PHONY: bench-failures
bench-failures: ## what clients see when the predictor is killed, hangs, or answers garbage, beside the matched configuration (minutes)
	$(Q)$(GO) run ./internal/bench/failures --out docs/results

.PHONY: bench-advise
bench-advise: ## whether spillway advise names the configuration that wins in simulation, on seeds it has not seen (minutes)
	$(Q)$(GO) run ./internal/bench/advise --out docs/results

.PHONY: bench-signals
bench-signals: ## what scrapes that are 1 s and 10 s old cost in simulation, against fresh ones (minutes)
	$(Q)$(GO) run ./internal/bench/signals --out docs/results

.PHONY: bench-saturation
bench-saturation: ## what routers tell autoscalers of simulated fleets at shares of their knee (minutes)
	$(Q)$(GO) run ./internal/bench/saturation --out docs/results

.PHONY: bench-scale
bench-scale: ## 200 endpoints: quality at 1,000 requests/s in simulation, and CPU of a real router before fake ones (minutes)
	$(Q)$(GO) run ./internal/bench/scale --out docs/results

.PHONY: bench-extproc
bench-extproc: ## CPU and latency of the endpoint picker with 100 endpoints, and of a streamed chunk beside a gRPC echo (minutes)
	$(Q)$(GO) run ./internal/bench/extproc --out docs/results

.PHONY: bench-routers
bench-routers: ## TTFT of 2 and 4 routers before one fleet beside one, sharing and not, and after one dies (simulated; a minute or two)
	$(Q)$(GO) run ./internal/bench/routers --out docs/results

.PHONY: bench-gateway
bench-gateway: ## latency, throughput, CPU and memory of the HTTP front door beside a direct connection and a bare proxy (minutes)
	$(Q)$(GO) run ./internal/bench/gateway --out docs/results

SOAK_TIME ?= 30m

.PHONY: soak
soak: setup ## a router with everything going wrong around it for SOAK_TIME: nothing lost, nothing left, nothing grows
	$(Q)$(GO) run ./internal/soak --time '$(SOAK_TIME)' --out docs/results

.PHONY: chaos
chaos: setup build ## every part as a process under load, killed, hung and lied to: nobody fails, no row is lost (4 min)
	$(Q)$(GO) run ./internal/chaos --binary bin/spillway --out docs/results

.PHONY: bench-restart
bench-restart: setup build ## a router restarted 20 times under load, behind PgBouncer: no request fails, no row is lost (2 min)
	$(Q)$(GO) run ./internal/bench/restart --binary bin/spillway --out docs/results

.PHONY: bench-predictor
bench-predictor: ## latency and CPU of forecasts over a Unix socket, beside the bare evaluation and leaves (minutes)
	$(Q)$(GO) run ./internal/bench/predictor --out docs/results
