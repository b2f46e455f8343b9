"""The table of a chart's values: names, defaults and words from values.yaml, forms from values.schema.json."""

import json
import re

KEY = re.compile(r"^( *)([\w.-]+):(?: (.*))?$")


def values(text):
    """Each value as (path, default, words): a comment directly above a key is about it and all below it."""
    lines = text.splitlines()
    comment, parents, found = [], [], []
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            comment.append(line.strip().lstrip("# "))
            continue
        key = KEY.match(line)
        if key:
            depth, name, default = len(key[1]), key[2], key[3]
            parents = [parent for parent in parents if parent[0] < depth]
            path = ".".join([parent[1] for parent in parents] + [name])
            words = " ".join(comment)
            below = lines[number + 1] if number + 1 < len(lines) else ""
            if default is not None:
                found.append((path, default, words))
            elif below.lstrip().startswith("- "):
                found.append((path, f"[{{{below.lstrip()[2:]}}}]", words))
            else:
                parents.append((depth, name))
                if words:
                    found.append((path, None, words))
        comment = []
    return found


def form(schema, path):
    """What the schema says of a value, or None when it says nothing."""
    part = schema
    for name in path.split("."):
        properties = resolved(schema, part).get("properties", {})
        if name not in properties:
            # What is below an object of free form.
            return "object" if "properties" not in resolved(schema, part) else None
        part = properties[name]
    part = resolved(schema, part)
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    kind = part.get("type", "object")
    if kind == "integer":
        least, most = part.get("minimum"), part.get("maximum")
        return f"{least} to {most}" if most is not None else f"{kind}, {least} or more" if least is not None else kind
    if kind == "array":
        return "list"
    return kind


def resolved(schema, part):
    return schema["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part


def leaves(schema, part=None, path=()):
    """The path of every value that the schema has a form for."""
    properties = resolved(schema, part if part is not None else schema).get("properties")
    if not properties:
        yield ".".join(path)
        return
    for name, below in properties.items():
        yield from leaves(schema, below, (*path, name))


def table(text, schema):
    rows = ["| value | default | form | what |", "| --- | --- | --- | --- |"]
    for path, default, words in values(text):
        words = words.replace("|", "\\|")
        if default is None:
            rows.append(f"| **{path}** | | | {words} |")
        else:
            rows.append(f"| `{path}` | `{default}` | {form(schema, path)} | {words} |")
    return "\n".join(rows)


def problems(text, schema_text, hidden):
    """Values without a form, and forms without a value; `hidden` ones are no part of this release."""
    schema = json.loads(schema_text)
    there = [path for path, default, _ in values(text) if default is not None]
    for path in there:
        if form(schema, path) is None:
            yield f"values.yaml has {path}, which values.schema.json has not"
    for path in leaves(schema):
        if not any(path.startswith(name) for name in hidden):
            if not any(found == path or found.startswith(path + ".") or path.startswith(found + ".") for found in there):
                yield f"values.schema.json has {path}, which values.yaml has not"
