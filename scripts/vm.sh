#!/usr/bin/env bash
# Runs the tests that need a kernel with WireGuard: all test targets of the name `vm`, in a virtual machine with Debian's
# kernel and no disk and no network. vm.sh [WORDS FOR THE TEST HARNESS]. What the machine said stays in .tools/vm/console.log.
# By software emulation: slow, and the same wherever this runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
export PATH="$PATH:/usr/sbin:/sbin"

patience=300 # seconds from power on to the end
# What the tests use; modules they need come along, and others are not loaded behind their backs.
modules=(wireguard veth bridge br_netfilter tun nf_tables nf_conntrack nf_conntrack_netlink
    nft_ct nft_chain_nat nft_nat nft_masq nft_reject_inet nft_fib_inet nft_objref)
programs=(sh mount modprobe ip ping nft sysctl wg)
vm=.tools/vm
release=$(basename "$vm"/lib/modules/*)
[ -e "$vm/boot/vmlinuz-$release" ] || die "no kernel in $vm: scripts/tools.sh vm"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root

# Copies a program to where it is here or to TARGET, and beside it the shared libraries it needs.
bring() { # PROGRAM [TARGET]
    local library target=${2:-$1}
    install -D "$1" "$root$target"
    { ldd "$1" || true; } 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
        [ -e "$root$library" ] || install -D "$library" "$root$library"
    done
}

say "building"
cargo test --quiet --no-run --workspace --test vm --message-format json-render-diagnostics >"$scratch/built"
sed -n '/"kind":\["test"\]/s/.*"executable":"\([^"]*\)".*/\1/p' "$scratch/built" >"$scratch/tests"
[ -s "$scratch/tests" ] || die "no test target of the name vm"

say "making the initial file system for Linux $release"
mkdir -p "$root"/{proc,sys,dev,run,tmp,usr/{bin,sbin,lib,lib64}}
ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root"
for program in "${programs[@]}"; do
    path=$(command -v "$program") || die "no $program: scripts/tools.sh vm"
    bring "$path"
done
while read -r test; do bring "$test" "/tests/$(basename "$test")"; done <"$scratch/tests"
# A client of an API does not start without certificate authorities.
install -D -m 644 {,"$root"}/etc/ssl/certs/ca-certificates.crt
for module in "${modules[@]}"; do
    # Some are a part of others in newer kernels. What is really missing fails a test.
    modprobe -d "$vm" -S "$release" --show-depends "$module" >>"$scratch/modules" 2>/dev/null || say "no module $module"
done
sed -n 's|^insmod .*\(/lib/modules/[^ ]*\).*|\1|p' "$scratch/modules" | sort -u | while read -r file; do
    install -D -m 644 "$vm$file" "$root$file"
done
cp "$vm/lib/modules/$release"/modules.{builtin,builtin.modinfo,order} "$root/lib/modules/$release/"
depmod -b "$root" "$release"
install scripts/vm-init.sh "$root/init"
echo "$*" >"$root/arguments"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$scratch/initramfs"

say "booting"
status=0
timeout --foreground "$patience" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -nodefaults -no-reboot \
    -display none -serial stdio -serial "file:$scratch/said" -kernel "$vm/boot/vmlinuz-$release" -initrd "$scratch/initramfs" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1" </dev/null | sed -u 's/\r$//' | tee "$vm/console.log" || status=$?
[ "$status" != 124 ] || die "the machine did not end within $patience s: $vm/console.log"
[ "$status" = 0 ] || die "qemu ended with $status: $vm/console.log"
case $(tr -d '\r' <"$scratch/said") in
    failed=0) ;;
    failed=*) die "tests failed in the machine: $vm/console.log" ;;
    *) die "the machine ended before its tests did: $vm/console.log" ;;
esac
# A filter that matches nothing is no success.
grep -q '^test .* ok$' "$vm/console.log" || die "no test was run: $vm/console.log"
say "the tests in the machine passed"
