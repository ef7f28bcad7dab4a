"""A serializer for LangGraph's own savers that reads their values and runs nothing that the bytes name.

A value is msgpack with extension codes, or JSON in databases of older versions. An extension names a module, a class
and its arguments. Each becomes one of three things:

- a type of the standard library that is in one of the tables below: that value, made by a function of ours;
- a class that the store knows (LangChain's messages, LangGraph's own types, classes of the user's): the object, made
  with its constructor as LangGraph would make it;
- anything else: an `Opaque` named `module.class`, with its data. It comes back as the object once the class is allowed.

Nothing is imported, and nothing is called that is not in a table or in the registry. Pickles are refused. Where a
constructor refuses its own stored data, LangGraph goes on with the bare data, and so does this.
"""

from __future__ import annotations

import datetime as dt
import decimal
import ipaddress
import json
import os
import pathlib
import re
import secrets
import sys
import uuid
import zoneinfo
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, Final

import ormsgpack
from langchain_core.load.mapping import OLD_CORE_NAMESPACES_MAPPING, SERIALIZABLE_MAPPING
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from holdfast import ErrorCode, InvalidInputError, Opaque, StateError

_SINGLE, _SEVERAL, _FIELDS, _METHOD, _MODEL_1, _MODEL_2, _ARRAY, _SNAPSHOT = range(8)
"""LangGraph's extension codes, in its own order."""

_AS_STORED: Final = 1
"""The version of an Opaque whose data is what the store keeps of such an object: fields by name."""

_AS_WRITTEN: Final = 0
"""The version of one whose data is what LangGraph wrote: the value of an enum, a model with its models as dicts. A
class begins with version 1, so the data goes through its `upgrade` first."""

_MAX_DEPTH: Final = 200
"""Extensions within extensions: more than any state has, and less than the stack holds."""

_MAX_DIGITS: Final = 100_000
_MAX_COLLISIONS: Final = 1000
_CACHE_BYTES: Final = 8 << 20

_Make = Callable[[Any], Any]
"""Checks what the bytes hold (one argument, a list of them, or a dict) and makes the value; raises where it cannot."""


class SafeSerializer:
    """What LangGraph's savers call a `serde`, for reading alone.

    Args:
        knows: Whether the store may give objects of a class back.

    Attributes:
        opaque: How many objects of each class were kept as `Opaque`.
        bare: How many objects of each class could not be made, and were kept as their bare data.
    """

    def __init__(self, knows: Callable[[type], bool]) -> None:
        self.opaque: Counter[str] = Counter()
        self.bare: Counter[str] = Counter()
        self._knows = knows
        self._depth = 0
        self._failures: list[BaseException] = []
        self._models: dict[bytes, Any] = {}
        self._models_size = 0
        # No bytes of a database can have this kind.
        self._own_kind = f"own-{secrets.token_hex(16)}"
        self._own: dict[bytes, Any] = {}

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Hand out a ticket for a value: PostgresSaver puts old pending sends together and reads them right back."""
        ticket = str(len(self._own)).encode()
        self._own[ticket] = obj
        return self._own_kind, ticket

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of a kind and its bytes.

        Raises:
            StateError: They are malformed (`decode-failed`).
            InvalidInputError: They are of a kind that is not imported, such as a pickle (`value-unsupported`).
        """
        kind, content = data[0], bytes(data[1] or b"")
        if kind == self._own_kind:
            return self._own.pop(content)
        if kind == "null":
            return None
        if kind == "bytes":
            return content
        if kind == "bytearray":
            return bytearray(content)
        if kind == "msgpack":
            return self._unpack(content)
        if kind == "json":
            try:
                return json.loads(content, object_hook=self._revived)
            except (ValueError, RecursionError) as error:
                raise _malformed(str(error)) from error
        raise _refused_kind(kind)

    def _unpack(self, content: bytes) -> Any:
        self._failures.clear()
        try:
            return _unpacked(content, self._hook)
        except (ValueError, TypeError, RecursionError) as error:
            failure = self._failures[0] if self._failures else error
            if not isinstance(failure, (ValueError, TypeError, RecursionError)):
                # Of ours, with its own words; or an interrupt from the keyboard.
                raise failure from None
            raise _malformed(str(error)) from error

    def _hook(self, code: int, data: bytes) -> Any:
        try:
            return self._cached(code, data) if code == _MODEL_2 else self._extension(code, data)
        except BaseException as error:
            # ormsgpack says only that a hook failed.
            self._failures.append(error)
            raise

    def _cached(self, code: int, data: bytes) -> Any:
        """A model. A thread has its messages once more in every checkpoint, and one object may stand for all."""
        made = self._models.get(data)
        if made is None:
            made = self._extension(code, data)
            if type(made) not in (Opaque, dict):
                if self._models_size > _CACHE_BYTES:
                    self._models, self._models_size = {}, 0
                self._models[data] = made
                self._models_size += len(data)
        return made

    def _extension(self, code: int, data: bytes) -> Any:
        if self._depth >= _MAX_DEPTH:
            raise _malformed("extensions are nested too deeply")
        self._depth += 1
        try:
            content = _unpacked(data, self._hook)
        finally:
            self._depth -= 1
        if code == _SNAPSHOT:
            return _DeltaSnapshot(content)
        if code == _ARRAY:
            if type(content) is not list or len(content) != 4:
                raise _malformed("an array without type, shape, order and bytes")
            fields = dict(zip(("dtype", "shape", "order", "data"), content, strict=True))
            return self._opaque("numpy.ndarray", fields, _AS_STORED)
        if code not in _BUILD:
            raise _malformed(f"extension code {code} is not one of LangGraph's")
        # A method, where there is one, is named after the data; that of a model is always the same.
        size = 4 if code in (_METHOD, _MODEL_2) else 3
        if type(content) is not list or len(content) < size or any(type(w) is not str for w in content[:2]):
            raise _malformed("an object without the name of its class")
        method = content[3] if code == _METHOD else None
        return self._object(code, content[0], content[1], content[2], method)

    def _object(self, code: int, module: str, name: str, data: Any, method: Any = None) -> Any:
        make = _standard(code, module, name, method)
        if make is None:
            cls = self._class(module, name)
            if cls is None or code == _METHOD:
                return self._unknown(code, module, name, data)
            build = _BUILD[code]
            make = lambda given: build(cls, given)  # noqa: E731 - one of two ways
        try:
            return make(data)
        except Exception:  # noqa: BLE001 - a constructor of the application's may raise anything
            self.bare[f"{module}.{name}"] += 1
            return data

    def _class(self, module: str, name: str) -> type[Any] | None:
        """The class of that name, if its module is loaded and the store knows it."""
        loaded = sys.modules.get(module)
        # Not getattr: a module may import whatever it is asked for.
        found = vars(loaded).get(name) if isinstance(loaded, ModuleType) else None
        return found if isinstance(found, type) and self._knows(found) else None

    def _unknown(self, code: int, module: str, name: str, data: Any) -> Opaque:
        is_fields = type(data) is dict and all(type(each) is str for each in data)
        if module == "langgraph.types":
            # LangGraph's own types where only its checkpoints are installed: as they are stored where all of it is.
            if name == "Send" and type(data) is list and len(data) in (2, 3):
                fields = dict(zip(("node", "arg", "timeout"), data, strict=False))
                return self._opaque("langgraph.Send", fields, _AS_STORED)
            if is_fields:
                return self._opaque(f"langgraph.{name}", data, _AS_STORED)
        # A list or dict in a model may have been a model or a tuple before it was written.
        plain = is_fields and (
            code == _FIELDS
            or (code == _MODEL_2 and not any(isinstance(each, (list, dict)) for each in data.values()))
        )
        return self._opaque(f"{module}.{name}", data, _AS_STORED if plain else _AS_WRITTEN)

    def _opaque(self, name: str, data: Any, version: int) -> Opaque:
        self.opaque[name] += 1
        return Opaque(name, version, data)

    def _revived(self, data: dict[str, Any]) -> Any:
        """An object in the JSON of older versions: `lc` 1 is LangChain's own form, 2 is LangGraph's."""
        form, path = data.get("lc"), data.get("id")
        if form not in (1, 2) or type(path) is not list or any(type(step) is not str for step in path):
            return data
        if data.get("type") != "constructor" or len(path) < 2:
            return data
        if form == 1:
            # Where classes have been moved to since.
            mapped = SERIALIZABLE_MAPPING.get(tuple(path)) or OLD_CORE_NAMESPACES_MAPPING.get(tuple(path))
            path = list(mapped or path)
        return self._constructed(".".join(path[:-1]), path[-1], data)

    def _constructed(self, module: str, name: str, data: dict[str, Any]) -> Any:
        arguments, fields, method = data.get("args"), data.get("kwargs"), data.get("method")
        if arguments and fields:
            return self._opaque(f"{module}.{name}", {"args": arguments, "kwargs": fields}, _AS_WRITTEN)
        if not arguments:
            return self._object(_FIELDS, module, name, fields or {})
        if type(arguments) is not list:
            raise _malformed("an object whose arguments are no list")
        if _standard(_METHOD, module, name, method) is not None:
            return self._object(_METHOD, module, name, arguments[0], method)
        if len(arguments) == 1 and (module, name) not in _BY_SEVERAL:
            return self._object(_SINGLE, module, name, arguments[0])
        return self._object(_SEVERAL, module, name, arguments)


def enum_member(cls: type[Any], value: Any) -> Any:
    """The member of an enum that has this value. A tuple was written as a list."""
    try:
        return cls(value)
    except ValueError:
        if type(value) is not list:
            raise
        return cls(tuple(value))


def _malformed(why: str) -> StateError:
    return StateError(
        f"the stored value cannot be read: {why}",
        code=ErrorCode.DECODE_FAILED,
        hint="look whether LangGraph can still read this thread; --keep-going imports the others",
    )


def _refused_kind(kind: str | None) -> InvalidInputError:
    if kind == "pickle":
        why = "the value is a pickle, which runs code when it is read"
        hint = "load the thread with its own program and save it there without pickle_fallback"
    elif kind is not None and "+" in kind:
        why = f"the value is encrypted ({kind.partition('+')[2]!r:.60})"
        hint = "save it again without EncryptedSerializer"
    else:
        why = f"the value is of the kind {kind!r:.60}, which LangGraph's own serializer does not write"
        hint = "save it again with JsonPlusSerializer"
    hint = f"{hint}; --keep-going imports the other threads"
    return InvalidInputError(why, code=ErrorCode.VALUE_UNSUPPORTED, hint=hint)


def _unpacked(data: bytes, hook: Callable[[int, bytes], Any]) -> Any:
    return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)


def _with_arguments(cls: type[Any], data: Any) -> Any:
    if (cls.__module__, cls.__name__) == ("langgraph.types", "Send"):
        node, argument, *timeout = data
        return cls(node, argument, timeout=timeout[0]) if timeout else cls(node, argument)
    return cls(*data)


def _model(fallback: str) -> Callable[[type[Any], Any], Any]:
    def build(cls: type[Any], data: Any) -> Any:
        try:
            return cls(**data)
        except Exception:  # noqa: BLE001 - a validator may raise anything; what was valid once is kept as it is
            return getattr(cls, fallback)(**data)

    return build


_BUILD: Final[dict[int, Callable[[type[Any], Any], Any]]] = {
    _SINGLE: lambda cls, data: enum_member(cls, data) if issubclass(cls, Enum) else cls(data),
    _SEVERAL: _with_arguments,
    _FIELDS: lambda cls, data: cls(**data),
    _METHOD: lambda cls, data: cls(data),
    _MODEL_1: _model("construct"),
    _MODEL_2: _model("model_construct"),
}
"""How an object of a known class is made, by extension code."""


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not a text")
    return value


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value


def _members(value: Any) -> list[Any]:
    if len(_items(value)) - len(set(map(hash, value))) > _MAX_COLLISIONS:
        # Each would be compared with all before it.
        raise ValueError("too many members with equal hashes")
    return list(value)


def _ints(value: Any, count: int) -> list[int]:
    # These constructors take more than numbers: datetime.date takes the bytes of a pickle.
    if len(_items(value)) != count or any(type(item) is not int for item in value):
        raise TypeError(f"not {count} whole numbers")
    return list(value)


def _decimal(value: Any) -> decimal.Decimal:
    if len(_text(value)) > _MAX_DIGITS:
        raise ValueError("a number of too many digits")
    # A program may have switched this signal off; bad text would then silently become NaN.
    return decimal.Decimal(value, decimal.Context(traps=[decimal.InvalidOperation]))


def _zone(value: Any) -> zoneinfo.ZoneInfo:
    # zoneinfo looks keys up as files and as modules of the tzdata package: nothing but a plain name may get there.
    if re.fullmatch(r"[\w+-]+(/[\w+-]+)*", _text(value), re.ASCII) is None:
        raise ValueError("not the name of a time zone")
    return zoneinfo.ZoneInfo(value)


def _of_text(kind: Callable[[str], Any]) -> _Make:
    return lambda value: kind(_text(value))


def _path(kind: type[pathlib.PurePath]) -> _Make:
    return lambda value: kind(*[_text(part) for part in _items(value)])


def _timezone(value: Any) -> dt.timezone:
    offset, *name = _items(value)
    if not isinstance(offset, dt.timedelta) or len(name) > 1:
        raise TypeError("not the offset of a time zone")
    return dt.timezone(offset, *[_text(each) for each in name])


def _time(value: Any) -> dt.time:
    if type(value) is not dict:
        raise TypeError("not the fields of a time")
    fields = dict(value)
    zone, fold = fields.pop("tzinfo", None), fields.pop("fold", 0)
    names = ("hour", "minute", "second", "microsecond")
    if not isinstance(zone, (dt.tzinfo, type(None))) or not fields.keys() <= set(names):
        raise TypeError("not the fields of a time")
    hour, minute, second, microsecond, fold = _ints([*(fields.get(name, 0) for name in names), fold], 5)
    return dt.time(hour, minute, second, microsecond, zone, fold=fold)


def _pattern(value: Any) -> re.Pattern[Any]:
    pattern, flags = _items(value)
    if type(pattern) not in (str, bytes) or type(flags) is not int:
        raise TypeError("not a pattern and its flags")
    # DEBUG makes `compile` print.
    return re.compile(pattern, flags & ~re.DEBUG.value)


_WINDOWS: Final = os.name == "nt"
_PATHS: Final[dict[str, type[pathlib.PurePath]]] = {
    "Path": pathlib.Path,
    # Of the other system there are only the pure ones.
    "PosixPath": pathlib.PurePosixPath if _WINDOWS else pathlib.PosixPath,
    "WindowsPath": pathlib.WindowsPath if _WINDOWS else pathlib.PureWindowsPath,
    "PurePosixPath": pathlib.PurePosixPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
}
_ADDRESSES: Final = (
    ipaddress.IPv4Address,
    ipaddress.IPv4Interface,
    ipaddress.IPv4Network,
    ipaddress.IPv6Address,
    ipaddress.IPv6Interface,
    ipaddress.IPv6Network,
)

_BY_ONE: Final[dict[tuple[str, str], _Make]] = {
    ("uuid", "UUID"): _of_text(uuid.UUID),
    ("decimal", "Decimal"): _decimal,
    ("builtins", "set"): lambda value: set(_members(value)),
    ("builtins", "frozenset"): lambda value: frozenset(_members(value)),
    ("collections", "deque"): lambda value: deque(_items(value)),
    ("zoneinfo", "ZoneInfo"): _zone,
    **{("ipaddress", kind.__name__): _of_text(kind) for kind in _ADDRESSES},
}
_BY_SEVERAL: Final[dict[tuple[str, str], _Make]] = {
    ("re", "compile"): _pattern,
    ("datetime", "timedelta"): lambda value: dt.timedelta(*_ints(value, 3)),
    ("datetime", "date"): lambda value: dt.date(*_ints(value, 3)),
    ("datetime", "timezone"): _timezone,
    # Python 3.13 has the classes in a module of their own.
    **{(m, name): _path(kind) for m in ("pathlib", "pathlib._local") for name, kind in _PATHS.items()},
}
_BY_NAMES: Final[dict[tuple[str, str], _Make]] = {("datetime", "time"): _time}
_BY_METHOD: Final[dict[tuple[str, str, str], _Make]] = {
    ("datetime", "datetime", "fromisoformat"): _of_text(dt.datetime.fromisoformat),
}


def _standard(code: int, module: str, name: str, method: Any) -> _Make | None:
    """What makes a type of the standard library, if it is in a table."""
    if code == _METHOD:
        return _BY_METHOD.get((module, name, method)) if type(method) is str else None
    table = {_SINGLE: _BY_ONE, _SEVERAL: _BY_SEVERAL, _FIELDS: _BY_NAMES}.get(code, {})
    return table.get((module, name))
