#!/usr/bin/env python3
"""Writes the table of built-in types from checkouts of the upstream API repositories.

    generate/types.py API APIMACHINERY APIEXTENSIONS AGGREGATOR > src/types/builtin.txt

Each argument is a git directory or a work tree of the repository of that name. The roots are the types that
src/types/kinds.txt names; everything they reach is written, sorted. Only facts are taken: names, numbers, tags.
"""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KINDS = HERE.parent / "src/types/kinds.txt"

# Types that are scalars in the table.
SCALARS = {
    "string": "string", "bool": "bool", "int32": "int32", "int": "int64", "int64": "int64", "uint8": "int32",
    "float64": "float64", "[]byte": "bytes",
    "meta/v1.Time": "time", "meta/v1.MicroTime": "microtime", "meta/v1.Duration": "duration",
    "meta/v1.FieldsV1": "fieldsv1", "resource.Quantity": "quantity", "intstr.IntOrString": "intstr",
    "runtime.RawExtension": "raw", "runtime.Object": "raw",
    "types.UID": "string", "types.NodeName": "string", "types.NamespacedName": "any",
    "apiextensions/v1.JSON": "json", "apiextensions/v1.JSONSchemaPropsOrArray": "schemaOrArray",
    "apiextensions/v1.JSONSchemaPropsOrBool": "schemaOrBool",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "schemaOrStrings",
}
# Structs that are `null` or left out when zero, not `{}`.
VALUE_STRUCTS = {"time", "microtime", "duration", "fieldsv1", "quantity", "intstr", "raw", "json"}


class Repository:
    def __init__(self, path):
        self.path = path
        self.bare = (pathlib.Path(path) / "HEAD").exists()

    def git(self, *args):
        where = ["--git-dir", self.path] if self.bare else ["-C", self.path]
        return subprocess.run(["git", *where, *args], check=True, capture_output=True, text=True).stdout

    def read(self, name):
        return self.git("show", f"HEAD:{name}")

    def files(self, prefix):
        return [f for f in self.git("ls-tree", "-r", "--name-only", "HEAD", prefix).splitlines()]


class Package:
    """The types, constants and imports of one Go package."""

    def __init__(self, short):
        self.short = short
        self.structs = {}   # name -> (tags, [fields])
        self.aliases = {}   # name -> (tags, Go type)
        self.constants = {}  # type name -> [values]
        self.named = {}     # constant name -> value
        self.borrowed = []  # (type name, import alias, constant name)
        self.imports = {}   # alias -> import path


def short_of(path):
    if path.startswith("k8s.io/api/"):
        return path.removeprefix("k8s.io/api/")
    for marker in ("pkg/apis/",):
        if marker in path:
            return path.split(marker)[1]
    return path.rsplit("/", 1)[-1]


def parse(package, text):
    for alias, path in re.findall(r'^(?:\t|import )(?:(\w+) )?"([^"]+)"$', text, re.M):
        package.imports[alias or path.rsplit("/", 1)[-1]] = short_of(path)
    comments, blocks, lines, at = [], [], text.splitlines(), 0
    while at < len(lines):
        line = lines[at]
        at += 1
        stripped = line.strip()
        if stripped.startswith("//"):
            comments.append(stripped[2:].strip())
            continue
        if not stripped:
            blocks, comments = (comments or blocks), []
            continue
        tags = [c for c in blocks + comments if c.startswith("+")]
        if m := re.match(r"type (\w+) struct ?\{(\})?", line):
            fields = []
            if not m[2]:
                at = parse_fields(lines, at, fields)
            package.structs[m[1]] = (tags, fields)
        elif m := re.match(r"type (\w+) =? ?([\w\[\]\.\*]+)$", line):
            package.aliases[m[1]] = (tags, m[2])
        elif m := re.match(r'\s*(?:const )?(\w+)\s+(\w+)\s*=\s*"([^"]*)"', line):
            package.constants.setdefault(m[2], []).append(m[3])
            package.named[m[1]] = m[3]
        elif m := re.match(r'\s*(?:const )?(\w+)\s*=\s*(\w+)\("([^"]*)"\)', line):
            package.constants.setdefault(m[2], []).append(m[3])
            package.named[m[1]] = m[3]
        elif m := re.match(r"\s*(?:const )?\w+\s*=\s*(\w+)\((\w+)\.(\w+)\)", line):
            package.borrowed.append(m.groups())
        comments, blocks = [], []


def parse_fields(lines, at, fields):
    comments = []
    while lines[at].strip() != "}":
        stripped = lines[at].strip()
        at += 1
        if stripped.startswith("//"):
            comments.append(stripped[2:].strip())
        elif not stripped:
            comments = []
        elif m := re.match(r"(?:(\w+)\s+)?([\w\[\]\.\*]+)\s+`([^`]*)`", stripped):
            fields.append((m[1], m[2], m[3], [c for c in comments if c.startswith("+")]))
            comments = []
    return at + 1


class Table:
    def __init__(self, packages):
        self.packages = packages
        self.out = {}

    def resolve(self, package, go):
        """The Go type as a type expression of the table, and whether it is a struct by value."""
        go = go.lstrip("*")
        if go == "[]byte":
            return "bytes", False
        if go.startswith("[]"):
            return f"[{self.resolve(package, go[2:])[0]}]", False
        if go.startswith("map["):
            return "{" + self.resolve(package, go.split("]", 1)[1])[0] + "}", False
        if "." in go:
            alias, name = go.split(".")
            target = package.imports.get(alias, alias)
            name = f"{target}.{name}"
        elif go in SCALARS:
            return SCALARS[go], False
        else:
            name = f"{package.short}.{go}"
        if name in SCALARS:
            return SCALARS[name], SCALARS[name] not in VALUE_STRUCTS and False
        home, bare = name.rsplit(".", 1)
        other = self.packages.get(home)
        if other is None:
            raise SystemExit(f"{name}: package unknown, met in {package.short}")
        if bare in other.structs:
            self.visit(name)
            return name, True
        if bare not in other.aliases:
            raise SystemExit(f"{name}: type unknown, met in {package.short}")
        _, target = other.aliases[bare]
        inner, by_value = self.resolve(other, target)
        # A named list that is a value of its own is a message of its own, `items = 1`.
        return inner, by_value

    def wrapped(self, package, go):
        """As resolve, with named lists inside lists and maps as messages."""
        if go.startswith("map[") or go.startswith("[]"):
            inner = go.split("]", 1)[1].lstrip("*")
            home = package
            if "." in inner:
                alias, inner = inner.split(".")
                home = self.packages.get(package.imports.get(alias, alias))
            if home and inner in home.aliases and home.aliases[inner][1].startswith("[]"):
                resolved = "~" + self.resolve(home, inner)[0]
                return (f"[{resolved}]" if go.startswith("[]") else "{" + resolved + "}"), False
        return self.resolve(package, go)

    def enumeration(self, package, go):
        go = go.lstrip("*")
        home = package
        if "." in go:
            alias, go = go.split(".")
            home = self.packages.get(package.imports.get(alias, alias))
        if home and go in home.aliases and "+enum" in home.aliases[go][0]:
            # The empty value is one too where a constant says so, as for HostPathType.
            return [v for v in dict.fromkeys(home.constants.get(go, [])) if not re.search(r"[|\s]", v)]
        return []

    def visit(self, name):
        if name in self.out:
            return
        home, bare = name.rsplit(".", 1)
        package = self.packages[home]
        tags, fields = package.structs[bare]
        lines = self.out[name] = []
        head = name + (" atomic" if "+structType=atomic" in tags or "+mapType=atomic" in tags else "")
        lines.append(head)
        rows = [self.field(package, *field) for field in fields]
        lines.extend(sorted(row for row in rows if row))

    def field(self, package, name, go, tag, tags):
        keys = dict(re.findall(r'(\w+):"([^"]*)"', tag))
        parts = keys.get("json", "").split(",")
        if "json" not in keys or parts[0] == "-":
            return None
        proto = keys.get("protobuf", "").split(",")
        number = proto[1] if len(proto) > 1 else "0"
        if name is None and not parts[0]:
            target, _ = self.resolve(package, go)
            return f" + {number} {target}"
        target, by_value = self.wrapped(package, go)
        flags = []
        omit = "omitempty" in parts or "omitzero" in parts
        values = {k: v for k, _, v in (t[1:].partition("=") for t in tags)}
        if not (omit or "optional" in values or "k8s:optional" in values):
            flags.append("r")
        if by_value and not go.startswith("*"):
            if "omitzero" not in parts and not target.endswith("ListMeta"):
                flags.append("d={}")
        elif omit and not go.startswith("*") and target not in VALUE_STRUCTS:
            flags.append("z")
        if values.get("listType") == "map":
            found = [t.partition("=")[2] for t in tags if t.startswith("+listMapKey=")]
            flags.append("lt=map:" + ",".join(found))
        elif values.get("listType") == "set":
            flags.append("lt=set")
        if values.get("structType") == "atomic" or values.get("mapType") == "atomic":
            flags.append("mt=atomic")
        if values.get("structType") == "granular" or values.get("mapType") == "granular":
            flags.append("mt=granular")
        if key := keys.get("patchMergeKey"):
            flags.append("mk=" + key)
        if strategy := keys.get("patchStrategy"):
            flags.append("ps=" + strategy)
        if "default" in values:
            default = values["default"]
            if m := re.match(r"ref\((.*)\)$", default):
                default = json.dumps(package.named[m[1]])
            # An empty default says nothing that absent does not.
            if default not in ('""', "{}", "false", "0") or not omit:
                flags = [f for f in flags if not f.startswith("d=")] + ["d=" + default]
        if enum := self.enumeration(package, go):
            flags.append("e=" + "|".join(sorted(enum)))
        return f" {parts[0]} {number} {target} {' '.join(flags)}".rstrip()


def main():
    api, machinery, extensions, aggregator = map(Repository, sys.argv[1:5])
    sources = []
    for file in api.files("."):
        if re.fullmatch(r"[a-z]+/v[0-9a-z]+/[a-z_]*types[a-z_]*\.go", file) and "swagger" not in file:
            sources.append((api, file.rsplit("/", 1)[0], file))
    for file in ("types.go", "micro_time.go", "group_version.go"):
        sources.append((machinery, "meta/v1", f"pkg/apis/meta/v1/{file}"))
    for file in ("types.go", "types_jsonschema.go"):
        sources.append((extensions, "apiextensions/v1", f"pkg/apis/apiextensions/v1/{file}"))
    sources.append((aggregator, "apiregistration/v1", "pkg/apis/apiregistration/v1/types.go"))
    packages = {}
    for repository, short, file in sources:
        parse(packages.setdefault(short, Package(short)), repository.read(file))
    for package in packages.values():
        for name, alias, constant in package.borrowed:
            other = packages.get(package.imports.get(alias, alias))
            if other and constant in other.named:
                package.constants.setdefault(name, []).append(other.named[constant])
    table = Table(packages)
    for line in KINDS.read_text().splitlines():
        for root in re.findall(r"\b[a-z]+/v\d\w*\.[A-Z]\w*\b", line.partition("#")[0]):
            table.visit(root)
            if line.startswith("kind ") and root + "List" not in table.out:
                home, bare = root.rsplit(".", 1)
                if bare + "List" in packages[home].structs:
                    table.visit(root + "List")
    for name in sorted(table.out):
        print("\n".join(table.out[name]))


main()
