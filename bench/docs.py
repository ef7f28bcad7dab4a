"""Puts the tables of a run into the documentation: `python -m bench.docs RUN.json ...`.

The pages have places for them, from `<!-- figures: NAME -->` to `<!-- end of figures -->`; all between is replaced. So
each figure there comes from one run as it was, and a new run changes them all. What is said about them is not.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import textwrap
from pathlib import Path

from bench import graphs_report, postgres_report, report
from bench.targets import Results, judge, judge_graphs, judge_postgres

_DOCS = Path(__file__).resolve().parent.parent / "docs"
_PAGES = ("benchmarks.md", "scale.md", "integrations/langgraph.md")
_KINDS = {"recording": "recording", "heartbeat": "heartbeat", "diff": "diffing"}
"""Runs that say of which kind they are, and the module that has their tables."""
_PLACE = re.compile(r"<!-- figures: (?P<name>\w+) -->\n.*?<!-- end of figures -->", re.DOTALL)


def main() -> int:
    """Fill the places that these runs have figures for."""
    texts: dict[str, str] = {}
    for name in sys.argv[1:]:
        texts |= parts(json.loads(Path(name).read_text(encoding="utf-8")))
    for page in _PAGES:
        path = _DOCS / page
        if path.exists():
            text = path.read_text(encoding="utf-8")
            path.write_text(_PLACE.sub(lambda found: _filled(found, texts), text), encoding="utf-8")
    print(f"filled: {', '.join(sorted(texts)) or 'nothing'}")
    return 0


def parts(results: Results) -> dict[str, str]:
    """The texts of a run by the names of their places."""
    if (kind := results.get("kind")) is not None:
        tables = importlib.import_module(f"bench.{_KINDS[kind]}").tables(results)
        return {kind: _joined([_head(results), *tables])}
    if "databases" in results:
        tables = [*graphs_report.tables(results), report.target_table(judge_graphs(results))]
        return {"graphs": _joined([_head(results), *tables], "graphs")}
    if "PostgreSQL" in results["meta"]["versions"]:
        return dict(_on_postgres(results))
    whole = report.render(results, judge(results))
    # The report says first where it comes from, which is said here in other words.
    return {"sqlite": _joined([_head(results), whole.partition("\n\n")[2]])}


def _on_postgres(results: Results) -> list[tuple[str, str]]:
    made = []
    if results["workloads"]:
        whole = postgres_report.render(results | {"scale": None}, judge_postgres(results))
        made.append(("postgres", _joined([_head(results), whole.partition("\n\n")[2]], "PostgreSQL")))
    if results.get("scale"):
        scale, million = postgres_report.scale_tables(results["scale"])
        made += [("scale", _joined([_head(results), scale])), ("million", million)]
    return made


def _head(results: Results) -> str:
    meta = results["meta"]
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    text = (
        f"{meta['date']}, one run: {versions}; {meta['machine']}; one fsync of 4 KB took "
        f"{meta['sync']['wall']['median']:.2f} ms. Sizes are exact; times are medians in ms, "
        "processor time in parentheses."
    )
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False))


def _joined(texts: list[str], about: str = "") -> str:
    whole = "\n\n".join(texts)
    if about:
        whole = whole.replace("## Targets\n", f"## Targets: {about}\n")
    # The headings of a report are one level higher than in a page.
    return re.sub(r"^## ", "### ", whole, flags=re.MULTILINE)


def _filled(found: re.Match[str], texts: dict[str, str]) -> str:
    name = found["name"]
    if name not in texts:
        return found.group()
    return f"<!-- figures: {name} -->\n\n{texts[name].strip()}\n\n<!-- end of figures -->"


if __name__ == "__main__":
    sys.exit(main())
