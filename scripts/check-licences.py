"""Every crate that is linked for Linux has a licence on the list in deny.toml: a small stand-in for cargo-deny."""

import re
import subprocess
import sys
import tomllib


def satisfied(expression, allowed):
    """Whether an SPDX expression holds when exactly `allowed` are acceptable."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    merged = []
    for token in tokens:  # "X WITH Y" is one licence
        if token == "WITH" or (merged and merged[-1].endswith(" WITH")):
            merged[-1] += " " + token
        else:
            merged.append(token)
    words = {"(": "(", ")": ")", "AND": "and", "OR": "or"}
    return eval(" ".join(words.get(t, str(t.removesuffix("+") in allowed)) for t in merged))  # only brackets, and, or, True, False


def main():
    with open("deny.toml", "rb") as file:
        deny = tomllib.load(file)
    allowed = set(deny["licenses"]["allow"])
    banned = {entry["crate"] for entry in deny["bans"]["deny"]}
    command = ["cargo", "tree", "--locked", "--workspace", "--target", "x86_64-unknown-linux-gnu"]
    command += ["--edges", "normal,build", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]
    found = set()
    for line in subprocess.check_output(command, text=True).splitlines():
        if not line:
            continue  # between the trees of two members
        name, _, licence = line.partition("|")
        if name.split(" ")[0] in banned:
            found.add(f"{name}: banned in deny.toml")
        if not licence:
            found.add(f"{name}: names no licence")
        elif not satisfied(licence, allowed):
            found.add(f"{name}: {licence} is not on the list")
    print("\n".join(sorted(found)))
    sys.exit(1 if found else 0)


main()
