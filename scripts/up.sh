#!/usr/bin/env bash
# From a fresh clone to virtual IPs that answer: tools, build, a three-node cluster on this machine, the sample, the proof.
# The second run keeps what runs and only brings it to what is asked. LITEK8S_BIN names a binary built elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/say.sh
export PATH="$PWD/.tools/bin:$PATH:/usr/sbin:/sbin"
[ "$(id -u)" = 0 ] || die "a dev cluster is made of network namespaces: run this as root"

nodes=3
far_client=198.51.100.1 # behind the router, on neither of the nodes' networks
patience=60             # seconds any one condition may take

scripts/tools.sh
binary=${LITEK8S_BIN:-}
if [ -z "$binary" ]; then
    # The build that the tests use: a third of the time of a release build, and quick enough to look around in.
    say "building (some minutes the first time)"
    cargo build --workspace
    binary=$(scripts/target-dir.sh)/debug/litek8s
fi

say "starting a cluster of $nodes nodes"
"$binary" dev up --nodes "$nodes"
KUBECONFIG=$("$binary" dev status -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["kubeconfig"])')
export KUBECONFIG

# Tries a command until it succeeds; says what it waited for when it never does.
await() { # what, command...
    local what=$1 end=$(($(date +%s) + patience))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$end" ] || die "waited ${patience}s for $what: $("$@" 2>&1 | tail -3)"
        sleep 0.2
    done
}

say "applying docs/samples"
kubectl apply -f docs/samples

say "a responder on every node, in the node's own network"
for node in $(seq -f 'node-%g' "$nodes"); do
    on_node() { "$binary" dev exec "$node" -- "$@"; }
    answers() { on_node "$binary" dev request --timeout 500 http://127.0.0.1/; }
    if ! answers >/dev/null 2>&1; then
        on_node setsid "$binary" dev respond --name "$node" --port 80 </dev/null >/dev/null 2>&1 &
    fi
    await "the responder on $node" answers
done

wanted=$(kubectl get -f docs/samples -o json | python3 -c '
import json, sys
items = json.load(sys.stdin)["items"]
addresses = [ip for item in items if item["kind"] == "Service" for ip in item["spec"].get("externalIPs", [])]
annotation = "netwrangler.dev/addresses"
for item in items:
    listed = item["metadata"].get("annotations", {}).get(annotation, "")
    addresses += [ip.strip() for ip in listed.split(",") if ip.strip()]
print("\n".join(addresses))')
placed() { [ "$(kubectl get vipaddresses -A --no-headers | wc -l)" -ge "$(wc -w <<<"$wanted")" ]; }
say "waiting until every virtual IP is placed and in place"
await "$(wc -w <<<"$wanted") VipAddresses" placed
kubectl wait vipaddresses --all -A --for=condition=Ready --timeout="${patience}s" >/dev/null

echo
kubectl get vipaddresses -A
echo
ask() { "$binary" dev exec outside -- "$binary" dev request --source "$far_client" "http://$1/"; }
for address in $wanted; do
    await "an answer from $address" ask "$address"
    printf 'from outside (%s): http://%s/ is answered by %s\n' "$far_client" "$address" "$(ask "$address")"
done
echo
say "up. Next:"
echo "  export KUBECONFIG=$KUBECONFIG PATH=$PWD/.tools/bin:$(dirname "$binary"):\$PATH"
echo "  litek8s dev down"
