"""The Helm chart lints, renders what charts/golden says, and refuses what it should; its metrics are documented.

With --write the golden renderings and the table of values in the chart's README are made anew.
"""

import json
import pathlib
import re
import subprocess
import sys

import chart_values

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "charts/litek8s"
GOLDEN = ROOT / "charts/golden"
# A rendering depends on the Kubernetes it is for; the goldens are for this one.
KUBERNETES = "1.34.0"
# Forms without a value: of what Helm itself brings, what is only there to be refused, and what hardly anybody sets.
HIDDEN = ("global", "mesh", "networkPolicy", "controllers.resources.claims", "agent.resources.claims")
TABLE = re.compile(r"(<!-- values: .* -->\n).*(<!-- end of values -->)", re.S)
# Values that are refused, and what has to be in the message.
REFUSED = [
    ("image.repository=", "no image is published"),
    ("mesh.enabled=true", "the WireGuard mesh is not part of this release"),
    ("networkPolicy.enabled=true", "NetworkPolicies is not part of this release"),
    ("vip.enabled=false,gateways.enabled=false", "nothing to install"),
    ("metrics.podMonitor.enabled=true,agent.listen=loopback", "needs agent.listen: node"),
    ("metrics.prometheusRule.enabled=true,metrics.prometheusRule.disabled={VipNonsense}", "no alert VipNonsense"),
    ("agent.port=0", "/agent/port"),
    ("image.digest=sha256:1", "/image/digest"),
    ("controllers.replica=2", "'replica' not allowed"),
]


def helm(*arguments):
    return subprocess.run(["helm", *map(str, arguments)], capture_output=True, text=True, check=False)


def template(*arguments):
    return helm("template", "suite", CHART, "--namespace", "vips", "--kube-version", KUBERNETES, *arguments)


def shortened(rendering):
    """A definition is one line: the test of the definitions compares the whole."""
    documents = []
    for document in rendering.split("\n---\n"):
        if "\nkind: CustomResourceDefinition\n" in document:
            name = re.search(r"^  name: (.*)$", document, re.M).group(1)
            kept = "kept at uninstall" if "helm.sh/resource-policy: keep" in document else "deleted at uninstall"
            document = f"# CustomResourceDefinition {name}, {kept}"
        documents.append(document.strip())
    return "\n---\n".join(documents).removeprefix("---\n") + "\n"


def readme_values(write):
    """The README's table is that of values.yaml and its schema, which agree."""
    text, schema = ((CHART / name).read_text() for name in ("values.yaml", "values.schema.json"))
    yield from chart_values.problems(text, schema, HIDDEN)
    readme = CHART / "README.md"
    before = readme.read_text()
    after = TABLE.sub(lambda found: f"{found[1]}{chart_values.table(text, json.loads(schema))}\n{found[2]}", before)
    if write:
        readme.write_text(after)
    elif before != after:
        yield "the values in charts/litek8s/README.md are not those of values.yaml: scripts/check-chart.py --write"


def problems(write):
    lint = helm("lint", "--strict", "--quiet", CHART, "--set", "image.repository=example.org/litek8s")
    if lint.returncode:
        yield "helm lint:\n" + lint.stdout + lint.stderr
    for values in sorted(GOLDEN.glob("*.values.yaml")):
        golden = values.with_name(values.name.replace(".values.yaml", ".yaml"))
        rendered = template("--values", values)
        if rendered.returncode:
            yield f"{values.name}: {rendered.stderr}"
            continue
        text = shortened(rendered.stdout)
        if write:
            golden.write_text(text)
        elif not golden.exists() or golden.read_text() != text:
            yield f"{golden.name} is not what the chart renders: scripts/check-chart.py --write, and look at the difference"
    for setting, message in REFUSED:
        refused = template("--set", "image.repository=r", "--set", setting)
        if refused.returncode == 0 or message not in refused.stderr:
            yield f"--set {setting} should be refused with {message!r}:\n{refused.stderr}"
    yield from readme_values(write)
    documented = (ROOT / "docs/metrics.md").read_text()
    for name in ("alerts.yaml", "dashboard.json"):
        text = (CHART / "files" / name).read_text()
        for metric in sorted(set(re.findall(r"\blitek8s_\w+", text))):
            if f"`{re.sub('_(bucket|sum|count)$', '', metric)}`" not in documented:
                yield f"{name} names {metric}, which docs/metrics.md does not"
        for alert in re.findall(r"alert: (\w+)", text):
            if f"`{alert}`" not in documented:
                yield f"the alert {alert} is not in docs/metrics.md"


found = list(problems("--write" in sys.argv[1:]))
print("\n".join(found))
sys.exit(1 if found else 0)
