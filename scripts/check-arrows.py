"""The crates' dependencies are those of the design and no others; pure crates stay pure."""

import json
import subprocess
import sys

# Crate → the crates of ours it may use. `daemon` (logs, health, shutdown, PKI) is a leaf that every daemon shares.
ARROWS = {
    "litek8s": {"apiserver", "controllers", "node-agent", "lab", "daemon"},
    "apiserver": {"raft", "store", "machinery", "daemon", "crds"},
    "raft": {"store"},
    "base2histogram": set(),
    "store": set(),
    "machinery": set(),
    "controllers": {"crds", "daemon"},
    "node-agent": {"plan", "kernel", "crds", "daemon"},
    "plan": {"crds"},
    "kernel": {"plan"},
    "crds": set(),
    "daemon": set(),
    "lab": {"kernel", "crds"},
    "compat": {"lab", "crds"},
    "bench": {"lab", "crds"},
}
# What would bring a clock, a file, a socket or an executor into code that only decides.
PURE = {"store", "machinery", "plan"}
IMPURE = {"tokio", "hyper", "hyper-util", "kube", "reqwest", "rtnetlink", "nix", "libc", "rand", "getrandom", "openraft"}
# Crates only one of ours may name.
OWNERS = {
    "openraft": "raft",
    "genetlink": "kernel",
    "netlink-packet-netfilter": "kernel",
    "netlink-packet-wireguard": "kernel",
}


def short(name):
    return name if name == "litek8s" else name.removeprefix("litek8s-")


def problems(packages):
    ours = {p["name"] for p in packages}
    for package in packages:
        name = short(package["name"])
        if name not in ARROWS:
            yield f"{name}: not in the table of arrows"
            continue
        for dependency in package["dependencies"]:
            target, kind = dependency["name"], dependency["kind"]
            if target in ours:
                if short(target) not in ARROWS[name] and kind != "dev":
                    yield f"{name} -> {short(target)}: not an arrow of the design"
                elif kind == "dev" and short(target) in {"apiserver"} and name in {"controllers", "node-agent"}:
                    yield f"{name} -> {short(target)}: not even in tests"
            elif kind != "dev" and name in PURE and target in IMPURE:
                yield f"{name} -> {target}: {name} is pure"
            elif OWNERS.get(target, name) != name:
                yield f"{name} -> {target}: only {OWNERS[target]} names it"


def main():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    found = sorted(set(problems(json.loads(subprocess.check_output(command))["packages"])))
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
