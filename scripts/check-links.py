"""Relative links in Markdown lead to files and headings that exist."""

import os
import re
import subprocess
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.S)


def anchors(path):
    """The names a Markdown file's headings can be linked by."""
    with open(path, encoding="utf-8") as file:
        text = FENCE.sub("", file.read())
    headings = re.findall(r"^#+\s+(.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def problems(path):
    with open(path, encoding="utf-8") as file:
        text = FENCE.sub("", file.read())
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        file_part, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), file_part)) if file_part else path
        if not os.path.exists(target):
            yield f"{path}: {link}: no such file"
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            yield f"{path}: {link}: no such heading"


def main():
    listed = subprocess.check_output(["git", "ls-files", "*.md"], text=True).split()
    found = [problem for path in listed if os.path.exists(path) for problem in problems(path)]
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
