#!/usr/bin/env bash
# The read-only gate: runs every check, reports every failure, changes nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
export PATH="$PWD/.tools/bin:$PATH"
failed=()
check() { # name, command...
    local name=$1 log
    shift
    if log=$("$@" 2>&1); then
        say "ok    $name"
    else
        say "FAIL  $name"
        printf '%s\n' "$log" | tail -${VERIFY_LINES:-60}
        failed+=("$name")
    fi
}
check "crate arrows" python3 scripts/check-arrows.py
check "licences and bans" cargo deny --log-level error check licenses bans sources
check "words and file shape" python3 scripts/check-text.py
check "links in the documentation" python3 scripts/check-links.py
check "Helm chart" python3 scripts/check-chart.py
check "format" cargo fmt --all --check
check "shell scripts parse" bash -c 'for f in scripts/*.sh .ci/run; do bash -n "$f" || exit 1; done'
check "generated manifests" cargo test --quiet -p litek8s-crds --test manifests
check "clippy" cargo clippy --quiet --workspace --all-targets --keep-going -- -D warnings
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
say "everything verified"
