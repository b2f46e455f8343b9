#!/bin/sh
# The first process of the machine that vm.sh boots: runs every program in /tests, says on the second serial line how they
# ended, and stops the machine. Whatever ends it early leaves that line empty, which is a failure.
set -u
export PATH=/usr/sbin:/usr/bin RUST_BACKTRACE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
ip link set lo up

read -r arguments </arguments
failed=0
for program in /tests/*; do
    # shellcheck disable=SC2086 # words of whoever runs them
    "$program" --test-threads 2 $arguments </dev/null || failed=1
done
echo "failed=$failed" >/dev/ttyS1
echo b >/proc/sysrq-trigger
