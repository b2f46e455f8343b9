#!/usr/bin/env bash
# Rewrites what a tool can mend: format, the lints clippy can fix, generated manifests, what the chart renders.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
say "clippy --fix"
cargo clippy --quiet --fix --allow-dirty --allow-staged --workspace --all-targets
say "manifests"
cargo run --quiet -p litek8s-crds --example manifests
say "chart"
PATH="$PWD/.tools/bin:$PATH" python3 scripts/check-chart.py --write
say "format"
cargo fmt --all
say "done; make verify shows what is left"
