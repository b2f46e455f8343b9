# What a person runs. Everything a target needs it brings itself; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.tools/bin:$(PATH):/usr/sbin:/sbin

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F '\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

.PHONY: up
up: ## Build, start a three-node cluster on this machine and show VIPs answering
	@scripts/up.sh

.PHONY: test
test: ## Run every test (root: the tests make network namespaces)
	@scripts/tools.sh test
	@scripts/test.sh

.PHONY: test-vm
test-vm: ## Run the tests that need Debian's kernel, in a virtual machine
	@scripts/tools.sh vm
	@scripts/vm.sh

.PHONY: verify
verify: tools ## Read-only gate: format, lints, crate arrows, manifests, licences, words, links
	@scripts/verify.sh

.PHONY: fix
fix: ## Rewrite what verify would refuse and a tool can mend
	@scripts/fix.sh

.PHONY: bench
bench: tools ## Measure against the targets, results in bench/results/
	@cargo build --release -p litek8s -p litek8s-bench
	@cargo run --release -q -p litek8s-bench -- --binary "$$(scripts/target-dir.sh)/release/litek8s" $(BENCH_ARGS)

.PHONY: tools
tools: ## Bring pinned kubectl, Helm and the Debian tools into place
	@scripts/tools.sh

.PHONY: clean
clean: ## Stop every dev cluster left, remove .tools and the build
	@scripts/clean.sh
