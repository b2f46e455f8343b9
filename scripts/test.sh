#!/usr/bin/env bash
# Runs every test: nextest for the workspace, the examples in the documentation, and those in a virtual machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
[ "$(id -u)" = 0 ] || die "the tests make network namespaces: run as root"

say "building"
cargo build --quiet --workspace
export LITEK8S_BIN="${LITEK8S_BIN:-$(scripts/target-dir.sh)/debug/litek8s}"
say "testing"
cargo nextest run --workspace "$@"
if [ $# = 0 ]; then
    say "documentation examples"
    cargo test --quiet --workspace --doc
    scripts/vm.sh
fi
say "every test passed"
