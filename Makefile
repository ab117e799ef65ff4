# Every target here works on a fresh machine: what is missing is set up first,
# or named in one sentence. Settings: TIMEOUT, the limit of a package's tests; SUITES, what
# make test runs.

SHELL := bash

# Where Go's own installer puts it, which a bare shell may not search.
export PATH := $(PATH):/usr/local/go/bin
# Debian's Go does not fetch a newer one unless it is told to.
export GOTOOLCHAIN ?= auto
# All but the race detector is compiled as waza is released, without C, and so once.
export CGO_ENABLED ?= 0
# What was compiled in one clone serves another. A compiler that collects no garbage below
# 512 MiB needs about a tenth less of the processor.
export GOFLAGS ?= -trimpath '-toolexec=env GOGC=off GOMEMLIMIT=512MiB'

SUITES ?= base

.PHONY: help setup first build image run test test-all test-attacks test-agents test-faults test-pages test-compat test-kubernetes test-engines test-bench golden bench soak screenshots lint clean

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Have a Docker engine, the base image and the examples' images
	@scripts/phase setup scripts/setup

first:
	@scripts/first

build: ## Build bin/waza, static, with the guest for the engine, and an example's server
	@scripts/phase build scripts/build

image: first ## Build the image of docker-compose.yml from bin/waza
	@scripts/phase image scripts/image

# The first example needs an engine and one small image.
run: first ## Run the first example in isolation
	@bin/waza run --isolate examples/mcp-eval/eval.yaml

test: ## Lint, and run all tests without the suites below
	@scripts/test $(SUITES)

test-attacks: ## Attack trials and the runner, with every defence and without it
	@scripts/test attacks

test-agents: ## Run the command-line agents that come with waza, and build images of packages
	@scripts/test agents

test-faults: ## Kill runners, restart engines, fill disks
	@scripts/test faults

test-pages: ## Look at reports and served pages in a browser
	@scripts/test pages

test-compat: ## Plan and run evals written for upstream waza
	@scripts/test compat

test-kubernetes: ## Run trials on a cluster: that of KUBECONFIG, or one made here
	@scripts/test kubernetes

test-engines: ## Run waza on other engines, each in a virtual machine of Debian packages
	@scripts/engines

test-bench: ## See that the benchmark works
	@scripts/test bench

golden: ## Write the golden files anew, to read the diff
	@scripts/golden

test-all: ## Run every suite
	@scripts/test base kubernetes faults agents attacks pages compat bench

bench: ## Measure what isolation costs beside the bare engine; writes bench.json
	@scripts/setup go engine compose
	@scripts/phase build scripts/build bench
	@bin/bench

soak: setup build ## Run 500 trials in a row and 40 at once, and see that nothing grows or is left
	@scripts/soak

screenshots: setup build ## Take the README's pictures anew, of real runs
	@scripts/setup browser
	@scripts/phase screenshots scripts/screenshots

lint: ## Check format, vet, staticcheck and the notices of third parties
	@scripts/phase lint scripts/lint

clean: ## Remove what was built here; images and the engine stay
	@rm -rf bin
