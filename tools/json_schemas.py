"""Write the schemas in docs/spec/json that describe a report; with --check, say whether they are current.

python tools/json_schemas.py [--check]

The types of a report's fields give the schema, the docstrings under them its descriptions. Schemas of documents that
are no report (a state, a diff, settings) are written by hand.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast import Checkpoint, Keep, reports

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "spec" / "json"
STORE = {"store": {"type": "string", "description": "The store's URL."}}

REPORTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "annotate": (reports.CheckpointChange[reports.AnnotatePlan], {}),
    "at": (reports.AtReport, {}),
    "backup": (reports.BackupReport, {}),
    "bisect": (reports.BisectReport, {}),
    "blame": (reports.Blame, {}),
    "branch": (reports.BranchList, {}),
    "clear": (reports.ChangeReport[reports.ClearPlan], {}),
    "copy": (reports.CopyReport, {}),
    "create": (reports.SaveReport, {}),
    "delete": (reports.CheckpointChange[reports.DeletePlan], {}),
    "export": (reports.ExportReport, {}),
    "fork": (reports.CheckpointChange[reports.ForkPlan], {}),
    "gc": (reports.GcReport, {**STORE, "keep_days": {"type": "number", "minimum": 0}}),
    "history": (reports.HistoryReport, {}),
    "import": (reports.ImportReport, {}),
    "init": (reports.InitReport, {}),
    "list": (reports.CheckpointList, {}),
    "operations": (reports.OperationList, {}),
    "pin": (reports.CheckpointChange[reports.PinPlan], {}),
    "pins": (reports.PinList, {}),
    "prune": (reports.PruneReport, STORE),
    "redo": (reports.UndoReport, {}),
    "repair": (reports.RepairReport, STORE),
    "restore": (reports.CheckpointChange[reports.RestorePlan], {}),
    "sessions": (reports.SessionList, {}),
    "stats": (reports.StatsReport, {}),
    "switch": (reports.CheckpointChange[reports.SwitchPlan], {}),
    "tag": (reports.CheckpointChange[reports.TagPlan], {}),
    "tags": (reports.TagList, {}),
    "timeline": (reports.Timeline, {}),
    "undo": (reports.UndoReport, {}),
}
"""The report of each document, and what the command line adds to it."""

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    Any: {},
    datetime: {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T.+Z$"},
    Checkpoint: {"$ref": "checkpoint.schema.json"},
    Keep: {"type": "object", "description": "The rules and caps of the Keep; null where one was not given."},
}
_OPTIONAL = {"label", "label_from"}
"""Fields that are there only where they were asked for."""


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a type."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return _either([schema_of(each) for each in arguments if each is not type(None)])
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object"}
    return _object(kind)


def _either(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """What may also be null."""
    if len(schemas) == 1 and set(schemas[0]) <= {"type", "pattern"} and isinstance(schemas[0]["type"], str):
        return schemas[0] | {"type": [schemas[0]["type"], "null"]}
    return {"anyOf": [*schemas, {"type": "null"}]}


def _object(kind: Any) -> dict[str, Any]:
    cls = typing.get_origin(kind) or kind
    hints, about = _hints(kind, cls), _docs(cls)
    names = [field.name for field in fields(cls)]
    found: dict[str, Any] = {}
    for name in [*names, *cls.computed]:
        described = {} if name in cls.states else schema_of(hints[name])
        if name in about and "$ref" not in described:
            described["description"] = about[name]
        found[name.removesuffix("_")] = described
    required = [name for name in found if name not in _OPTIONAL]
    return {"type": "object", "properties": found, "required": required}


def _hints(kind: Any, cls: type) -> dict[str, Any]:
    known = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(kind), strict=True))
    for base in getattr(cls, "__orig_bases__", ()):
        for variable, given in zip(
            getattr(typing.get_origin(base), "__parameters__", ()), typing.get_args(base), strict=False
        ):
            known.setdefault(variable, known.get(given, given))
    hints = typing.get_type_hints(cls)
    for name in cls.computed:  # type: ignore[attr-defined]
        hints[name] = typing.get_type_hints(getattr(cls, name).fget)["return"]
    return {name: known.get(hint, hint) for name, hint in hints.items()}


def _docs(cls: type) -> dict[str, str]:
    """The docstrings under the fields of a class and its bases, and those of its properties."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        if not issubclass(each, reports.Report) or each is reports.Report:
            continue
        body = ast.parse(inspect.getsource(each)).body[0]
        assert isinstance(body, ast.ClassDef)
        for before, node in zip(body.body, body.body[1:], strict=False):
            if isinstance(before, ast.AnnAssign) and isinstance(node, ast.Expr):
                assert isinstance(before.target, ast.Name)
                found[before.target.id] = " ".join(ast.literal_eval(node.value).split())
        found |= {n.name: ast.get_docstring(n) or "" for n in body.body if isinstance(n, ast.FunctionDef)}
    return found


def text_of(name: str) -> str:
    """The text of one schema."""
    kind, extra = REPORTS[name]
    found = schema_of(kind)
    found["properties"] = {**extra, **found["properties"]}
    found["required"] = [*extra, *found["required"]]
    doc = inspect.getdoc(typing.get_origin(kind) or kind) or ""
    command = {"operations": "undo --list", "pins": "pin", "tags": "tag", "sessions": "list --sessions"}.get(
        name, name
    )
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"holdfast {command} --json",
        "description": doc.splitlines()[0],
    }
    return json.dumps(head | found, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the schemas, or check them."""
    code = 0
    for name in REPORTS:
        path = FOLDER / f"{name}.schema.json"
        if "--check" not in sys.argv:
            path.write_text(text_of(name), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text_of(name):
            print(f"docs/spec/json/{path.name} is not up to date: make docs")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
