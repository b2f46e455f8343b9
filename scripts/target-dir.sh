#!/usr/bin/env bash
# Prints the directory cargo builds into, wherever the environment or a configuration puts it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo metadata --format-version 1 --no-deps --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
