"""A checker for the schemas in docs/spec/json: small, strict, and unable to overlook a keyword that it does not know.

Beyond what a schema says, every field that a command writes must be described: undocumented output is an error here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "spec" / "json"

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_REMARKS = {"$schema", "title", "description"}


def load(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return schema


def problems(value: Any, schema: dict[str, Any], where: str = "$") -> list[str]:
    """Everything about `value` that `schema` does not allow or does not describe."""
    found: list[str] = []
    for keyword, wanted in schema.items():
        if keyword not in _REMARKS:
            found += _CHECKS[keyword](value, wanted, where, schema)
    return found


def _type(value, wanted, where, _schema):
    names = [wanted] if isinstance(wanted, str) else wanted
    fits = any(
        isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
        for name in names
    )
    return [] if fits else [f"{where} is {value!r}, not {wanted}"]


def _properties(value, wanted, where, _schema):
    if not isinstance(value, dict):
        return []
    found = [f"{where}.{name} is not described" for name in value.keys() - wanted.keys()]
    for name in value.keys() & wanted.keys():
        found += problems(value[name], wanted[name], f"{where}.{name}")
    return found


def _required(value, wanted, where, _schema):
    return [f"{where}.{name} is missing" for name in wanted if isinstance(value, dict) and name not in value]


def _items(value, wanted, where, _schema):
    if not isinstance(value, list):
        return []
    return [problem for i, item in enumerate(value) for problem in problems(item, wanted, f"{where}[{i}]")]


def _enum(value, wanted, where, _schema):
    return [] if value in wanted else [f"{where} is {value!r}, not one of {wanted}"]


def _pattern(value, wanted, where, _schema):
    return (
        []
        if not isinstance(value, str) or re.search(wanted, value)
        else [f"{where} is {value!r}, not {wanted}"]
    )


def _reference(value, wanted, where, _schema):
    return problems(value, load(wanted), where)


def _any(value, wanted, where, _schema):
    tries = [problems(value, each, where) for each in wanted]
    return [] if any(not each for each in tries) else tries[0]


_CHECKS = {
    "type": _type,
    "properties": _properties,
    "required": _required,
    "items": _items,
    "enum": _enum,
    "const": lambda value, wanted, where, schema: _enum(value, [wanted], where, schema),
    "pattern": _pattern,
    "minimum": lambda value, wanted, where, _: (
        [f"{where} is {value} < {wanted}"] if isinstance(value, int | float) and value < wanted else []
    ),
    "maximum": lambda value, wanted, where, _: (
        [f"{where} is {value} > {wanted}"] if isinstance(value, int | float) and value > wanted else []
    ),
    "$ref": _reference,
    "anyOf": _any,
}
