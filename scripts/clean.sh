#!/usr/bin/env bash
# Stops every dev cluster that is left, then removes what building and `make tools` made.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
target=$(scripts/target-dir.sh)
shopt -s nullglob
for state in /run/litek8s/dev/*/; do
    name=$(basename "$state")
    binary=
    for candidate in "$target"/release/litek8s "$target"/debug/litek8s; do
        [ -x "$candidate" ] && binary=$candidate && break
    done
    [ -n "$binary" ] || die "dev cluster $name is running and no litek8s is built: run make up, then make clean"
    say "stopping dev cluster $name"
    "$binary" dev down --name "$name"
done
say "removing .tools and $target"
rm -rf .tools "$target"
