# Every target here works on a fresh machine: what is missing is set up first,
# or named in one sentence. Settings: TIMEOUT, the limit of a package's tests on the engine.

SHELL := bash
TIMEOUT ?= 40m

# Where Go's own installer puts it, which a bare shell may not search.
export PATH := $(PATH):/usr/local/go/bin
export TIMEOUT
# Debian's Go does not fetch a newer one unless it is told to.
export GOTOOLCHAIN ?= auto

.PHONY: help setup first build image run test test-attacks bench soak screenshots lint clean

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Have a Docker engine, the base image and the examples' images
	@scripts/phase setup scripts/setup

first:
	@scripts/phase setup scripts/setup go engine first

build: ## Build bin/waza, static, its twin for the engine where that differs, and an example's server
	@scripts/phase build scripts/build

image: first build ## Build the image of docker-compose.yml from bin/waza
	@scripts/phase image scripts/image

# The first example needs an engine and one small image.
run: first build ## Run the first example in isolation
	@bin/waza run --isolate examples/mcp-eval/eval.yaml

test: setup build lint ## Run all tests, on the engine too, and see that nothing is left
	@scripts/setup cc compose
	@scripts/phase browser scripts/setup browser
	@scripts/phase agents scripts/setup agents
	@scripts/phase test scripts/test

test-attacks: ## Attack trials and the runner, with every defence and without it
	@scripts/setup go engine
	@scripts/phase attacks scripts/test-attacks

bench: ## Measure what isolation costs beside the bare engine; writes bench.json
	@scripts/setup go engine compose
	@scripts/phase build scripts/build bench
	@bin/bench

soak: setup build ## Run 500 trials in a row and 40 at once, and see that nothing grows or is left
	@scripts/soak

screenshots: setup build ## Take the README's pictures anew, of real runs
	@scripts/setup browser
	@scripts/phase screenshots scripts/screenshots

lint: ## Check format, vet and staticcheck
	@scripts/phase lint scripts/lint

clean: ## Remove what was built here; images and the engine stay
	@rm -rf bin
