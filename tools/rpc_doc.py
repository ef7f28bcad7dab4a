"""Write docs/reference/rpc.md from the table of operations; with --check, say whether it is current.

python tools/rpc_doc.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from holdfast.operations import Operation, load_operations

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "rpc.md"

HEAD = """# Operations

<!-- Written by tools/rpc_doc.py; make docs. -->

What servers offer: each is a method of JSON-RPC, and what reads has a path for GET. [How to serve a
store](../how-to/serve.md) says how to call them. Those marked *asks first* take two calls.
"""


def kind_of(schema: dict[str, Any]) -> str:
    """A type in a word or two."""
    if "enum" in schema:
        return " \\| ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind_of(schema['items'])}"
    return str(schema.get("type", "any JSON"))


def section(each: Operation) -> list[str]:
    """The lines about one operation."""
    schema = each.schema()
    told = [f"scope `{each.scope}`"] + (["*asks first*"] if each.destroys else [])
    told += [f"`GET {each.path}`"] if each.path else []
    lines = ["", f"## {each.name}", "", f"{each.description} ({', '.join(told)})"]
    if schema["properties"]:
        lines += ["", "| parameter | type | default | |", "|---|---|---|---|"]
    for name, one in schema["properties"].items():
        default = (
            "required" if name in schema["required"] else f"`{one['default']}`" if "default" in one else ""
        )
        about = one.get("description", "").replace("|", "\\|")
        lines.append(f"| `{name}` | {kind_of(one)} | {default} | {about} |")
    return lines


def text() -> str:
    """The page."""
    lines = HEAD.splitlines()
    for each in load_operations().values():
        lines += section(each)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or check it."""
    if "--check" not in sys.argv:
        PAGE.write_text(text(), encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text():
        print("docs/reference/rpc.md is not up to date: make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
