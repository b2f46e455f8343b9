# Sourced by the other scripts: progress lines with the time since the start, and one-line failures.
started=$(date +%s)
say() { printf '[%3ss] %s\n' "$(($(date +%s) - started))" "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
