"""Write docs/reference/python.md from the docstrings of the public API; with --check, say whether it is up to date.

python tools/api_doc.py [--check]
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import holdfast
import holdfast.reports

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "python.md"
HEAD = """# Python

What `holdfast` and `holdfast.reports` offer, as the docstrings say it. `AsyncStore`, `AsyncSession`, `AsyncDocument`
and `AsyncRecorder` have the same methods with the same arguments, to be awaited. Errors have
[a page of their own](errors.md).

<!-- Written by tools/api_doc.py; change the docstrings instead. -->
"""
FUNCTIONS = (
    "open",
    "aopen",
    "register",
    "parse_time",
    "occurred",
    "every",
    "on",
    "when",
    "attributes",
    "functions",
)
CLASSES = (
    "Store",
    "Session",
    "Document",
    "HeldLease",
    "Recorder",
    "ResumeReport",
    "Interrupted",
    "Checkpoint",
    "Diff",
    "Change",
    "PathStep",
    "DiffStat",
    "MergeReport",
    "MergeConflict",
    "MergeResolution",
    "BisectReport",
    "Blame",
    "PathChange",
    "GrepMatch",
    "Findings",
    "Keep",
    "Settings",
    "SessionInfo",
    "BranchInfo",
    "Undone",
    "OperationInfo",
    "Tree",
    "Around",
    "Recovered",
    "PruneReport",
    "GcReport",
    "ForgetReport",
    "ExportReport",
    "ImportReport",
    "SessionImport",
    "BranchAdvance",
    "ArchiveLimits",
    "MetricsSnapshot",
    "Event",
    "EventBus",
    "VerifyReport",
    "RepairReport",
    "Opaque",
)


def page() -> str:
    """The whole page."""
    functions = (f"\n## holdfast.{name}\n\n{_described(name, getattr(holdfast, name))}" for name in FUNCTIONS)
    classes = (
        _class(name, getattr(holdfast if name in holdfast.__all__ else holdfast.reports, name))
        for name in CLASSES
    )
    return "".join([HEAD, *functions, *classes])


def _class(name: str, cls: type) -> str:
    parts = [f"\n## {name}\n\n{_text(cls)}"]
    members = {key: member for key, member in inspect.getmembers_static(cls) if not key.startswith("_")}
    own = {key: member for key, member in members.items() if _is_ours(member)}
    fields = [(key, member) for key, member in own.items() if isinstance(member, property)]
    if fields:
        parts.append("\n| | |\n|---|---|\n")
        parts += [f"| `{key}` | {' '.join(_doc(member).split())} |\n" for key, member in fields]
    for key, found in own.items():
        member = found.__func__ if isinstance(found, classmethod) else found
        if inspect.isfunction(member):
            parts.append(f"\n### {name}.{key}\n\n{_described(key, member, _variables(cls))}")
    return "".join(parts)


def _variables(cls: type) -> dict[str, str]:
    """What the type variables of a generic base stand for in a class."""
    base = getattr(cls, "__orig_bases__", (cls,))[0]
    names = [each.__name__ for each in getattr(typing.get_origin(base), "__parameters__", ())]
    meant = [
        getattr(each, "__forward_arg__", getattr(each, "__name__", "")) for each in typing.get_args(base)
    ]
    return dict(zip(names, meant, strict=False))


def _is_ours(member: Any) -> bool:
    return isinstance(member, property) or getattr(member, "__module__", "").startswith("holdfast.")


def _described(name: str, function: Any, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    signature = str(inspect.signature(function)).replace("<not given>", "...")
    for variable, meant in variables.items():
        signature = re.sub(rf"(: |-> )(['\"]?){variable}\b", rf"\1\g<2>{meant}", signature)
    # Annotations are texts here, and show up with quotes.
    signature = re.sub(r"""(: |-> )(["'])(.*?)\2(?=[,)=]| =|$)""", r"\1\3", signature)
    return f"```text\n{name}{signature}\n```\n\n{_text(function)}"


def _text(thing: Any) -> str:
    """A docstring as Markdown: sections become lists."""
    lines, section = [], False
    for line in _doc(thing).splitlines():
        if line in ("Args:", "Raises:", "Attributes:"):
            lines += ["", f"{line[:-1]}:" if line != "Args:" else "Arguments:", ""]
            section = True
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, _, rest = line.strip().partition(": ")
            lines.append(f"- `{name}`: {rest}")
        elif section and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            section = section and bool(line.strip())
            lines.append(line)
    return "\n".join(lines).replace("\n\n\n", "\n\n").strip() + "\n"


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def main() -> int:
    """Write the page, or check it."""
    made = page()
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == made:
        return 0
    print("docs/reference/python.md is not up to date: make docs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
