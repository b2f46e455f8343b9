"""Files as the style asks: a head comment, no words of unfinished work, no paths of somebody's machine, no vague names."""

import re
import subprocess
import sys

UNFINISHED = re.compile(r"\b(?:todo|unimplemented|dbg)!|(?://|#|<!--|--).*\b(?:TODO|FIXME|XXX)\b|\bnot implemented yet\b")
MACHINE = re.compile(r"(?:^|[\s\"'`(=])/(?:home|work|farm|Users)/\w")
VAGUE = re.compile(r"(^|/)(utils?|helpers?|common|misc|manager|mod)\.rs$")
CHECKER = "scripts/check-text.py"  # names the words it looks for


def problems(path, text):
    lines = text.splitlines()
    if VAGUE.search(path):
        yield f"{path}: a name that says nothing; split it by what it does"
    if path.endswith(".rs") and "/generated/" not in path and not text.startswith("//!"):
        yield f"{path}:1: a Rust file opens with //!"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished: {line.strip()[:100]}"
        if MACHINE.search(line):
            yield f"{path}:{number}: a path of one machine: {line.strip()[:100]}"


def main():
    listed = subprocess.check_output(["git", "ls-files"], text=True).split("\n")
    found = []
    for path in filter(None, listed):
        if path in (CHECKER, "Cargo.lock"):
            continue
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        found.extend(problems(path, text))
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
