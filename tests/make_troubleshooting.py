# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/troubleshooting.md from the catalogue of failures, so that page and code cannot differ.

python tests/make_troubleshooting.py            writes the page
python tests/make_troubleshooting.py --table    prints code -> what shows it -> test
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "troubleshooting.md"
FIXTURES = ROOT / "tests" / "unit" / "plugins" / "plugin_utils" / "fixtures"

LAYERS = {
    "operator": "Operators, policy and driver",
    "node": "Nodes and their resources",
    "pod": "Pods",
    "rdma": "RDMA test",
    "gpudirect": "GPUDirect test",
    "perf": "Measured, but slow",
    "run": "Running commands in pods",
}
HEAD = """\
<!-- Made by tests/make_troubleshooting.py from plugins/plugin_utils/failures.yml; changes belong there. -->
# Troubleshooting

Every check, link and test that does not pass carries a reason code. This page tells what each means, what the likely cause is
and what to do. *May clear* says whether a wait or a second run can be enough.

How a cause is found:

1. The tests go from the bottom up, and the first layer that fails is the one to repair: policy, node resource, pod and its
   network, device and address, host memory, GPU memory.
2. Both ends of a link are looked at. What only says that the other end is gone is a consequence; the first cause wins.
3. The same text means different things in different tests: `Couldn't allocate MR` is locked memory with host memory and a
   missing peer-memory path with GPU memory.
4. A text that is not in the catalogue gives `unknown`, with the first error lines of both ends. Nothing is guessed.
5. An exit status alone proves nothing. A link counts as measured only with the client's complete table, in the right unit, with
   the sizes asked for, and exit status 0; on GPU memory both ends must also prove where their buffer was.
"""


def _import() -> None:
    folder = str(ROOT / ".build" / "collections")
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _link(source: str) -> str:
    if not source.startswith("https://"):
        return source
    parts = source.removeprefix("https://github.com/").split("/")
    if len(parts) == 4 and parts[2] in ("issues", "pull"):
        return f"[{parts[0]}/{parts[1]}#{parts[3]}]({source})"
    return f"<{source}>"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else text + "."


def render() -> str:
    """Return the page."""
    _import()
    from ansible_collections.k8si.fabric.plugins.plugin_utils.catalogue import catalogue, samples

    rows = catalogue()
    lines: dict[str, list[str]] = {}
    for code, _layer, text in samples():
        lines.setdefault(code, []).append(text)
    page = [HEAD]
    for layer, title in LAYERS.items():
        codes = sorted(code for code, row in rows.items() if row["layer"] == layer)
        page.append(f"- [{title}](#layer-{layer}): " + ", ".join(f"[{c}](#{c})" for c in codes))
    for layer, title in LAYERS.items():
        page.append(f'\n<a id="layer-{layer}"></a>\n\n## {title}')
        for code in sorted(code for code, row in rows.items() if row["layer"] == layer):
            row = rows[code]
            page.append(
                f'\n<a id="{row["anchor"]}"></a>\n\n### `{code}`\n\n{_sentence(row["title"])}\n'
            )
            if row["where"]:
                page.append(f"- **Seen in:** {row['where']}")
            page.append(f"- **Cause:** {_sentence(row['cause'])}")
            page.append(f"- **Remedy:** {_sentence(row['remedy'])}")
            page.append(f"- **May clear:** {'yes' if row['retry'] else 'no'}")
            page.append("- **Source:** " + "; ".join(_link(source) for source in row["source"]))
            if lines.get(code):
                page.append("\n```text")
                page.extend(text.strip() for text in lines[code])
                page.append("```")
    return "\n".join(page) + "\n"


def table() -> str:
    """Return code, what shows it, and the test that holds it, for every code; then the counts."""
    _import()
    from ansible_collections.k8si.fabric.plugins.plugin_utils.catalogue import catalogue, samples

    captures: dict[str, list[str]] = {}
    for name, (code, _side) in json.loads(
        (FIXTURES / "captures_codes.json").read_text("utf-8")
    ).items():
        captures.setdefault(code, []).append(name)
    own = {path.stem for path in (FIXTURES / "captures").glob("*.json")}
    texts: dict[str, list[str]] = {}
    for code, _layer, text in samples():
        texts.setdefault(code, []).append(text.strip())
    tests = {
        path.name: path.read_text("utf-8")
        for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
    }
    out, tested = [], 0
    for code, row in sorted(catalogue().items(), key=lambda item: (item[1]["layer"], item[0])):
        found = []
        for text in texts.get(code, []):
            found.append((text[:70], "test_catalogue.py::test_samples"))
        runs = captures.get(code, [])
        if runs:
            mine = [name for name in runs if name in own]
            shown = (mine or runs)[0]
            found.append((f"{len(runs)} runs, such as {shown}", "test_perftest_captures.py"))
        named = [name for name, text in tests.items() if f'"{code}"' in text]
        if named:
            found.append(("by name", ", ".join(named)))
        tested += bool(found)
        for shows, test in found or [("(given by a role or a check)", "-")]:
            out.append(f"{row['layer']:10} {code:28} {shows:72} {test}")
    out.append(
        f"{len(catalogue())} codes, {tested} of them in tests; {sum(map(len, texts.values()))} sample lines;"
        f" {sum(map(len, captures.values()))} failed captures with {len(captures)} codes"
    )
    return "\n".join(out)


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        sys.stdout.write(table() + "\n")
    else:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(render(), encoding="utf-8")
