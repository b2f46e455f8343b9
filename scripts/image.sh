#!/usr/bin/env bash
# Builds the container image of the Helm chart: scripts/image.sh [NAME:TAG]. Push it with the program that built it.
# IMAGE_BUILDER is the program (buildah, podman or docker, with its options); LITEK8S_BIN names a binary built elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
name=${1:-localhost/litek8s:$(sed -n 's/^appVersion: //p' charts/litek8s/Chart.yaml)}
builder=${IMAGE_BUILDER:-}
for candidate in buildah podman docker; do
    [ -n "$builder" ] || ! command -v "$candidate" >/dev/null || builder=$candidate
done
[ -n "$builder" ] || die "no buildah, podman or docker here: install one (Debian: apt-get install buildah)"
binary=${LITEK8S_BIN:-}
if [ -z "$binary" ]; then
    say "building the binary"
    cargo build --quiet --release -p litek8s
    binary=$(scripts/target-dir.sh)/release/litek8s
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
install -m 0755 "$binary" "$root/litek8s"
# A dynamic binary finds its loader and libraries where they are on this machine.
ldd "$binary" 2>/dev/null | grep -o '/[^ ]*' | sort -u | while read -r library; do
    install -D -m 0755 "$(readlink -f "$library")" "$root$library"
done
say "building $name"
$builder build --file Containerfile --tag "$name" "$root"
say "built $name"
