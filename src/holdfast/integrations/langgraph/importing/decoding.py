"""The values of LangGraph's serializer, read without importing or calling anything that the bytes name.

A value is msgpack with extension codes, or JSON in databases of older versions. An extension names a module, a class
and its arguments. Each becomes one of three things:

- a type of the standard library that `standard.py` has a maker for: that value;
- a class that the target's registry knows (LangChain's messages, LangGraph's own types, classes of the user's): the
  object, made with its constructor as LangGraph would make it;
- anything else: an `Opaque` named `module.class`, with its data. It comes back as the object once the class is allowed.

Where a constructor refuses its own stored data, LangGraph goes on with the bare data, and so does this.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import ModuleType
from typing import Any, Final

import ormsgpack
from langchain_core.load.mapping import OLD_CORE_NAMESPACES_MAPPING, SERIALIZABLE_MAPPING
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from holdfast.integrations.langgraph.importing import standard
from holdfast.integrations.langgraph.importing.refusing import malformed, refused_kind
from holdfast.integrations.langgraph.known import register_known
from holdfast.integrations.langgraph.upgrading import member
from holdfast.objects.opaque import Opaque
from holdfast.objects.registry import TypeRegistry

SINGLE, SEVERAL, FIELDS, METHOD, MODEL_1, MODEL_2, ARRAY, SNAPSHOT = range(8)
"""LangGraph's extension codes, in its own order."""

KINDS: Final = ("null", "bytes", "bytearray", "json", "msgpack")
"""How values may be written."""

AS_STORED: Final = 1
"""The version of an Opaque whose data is what the store keeps of such an object: fields by name."""

AS_WRITTEN: Final = 0
"""The version of an Opaque whose data is what LangGraph wrote, where the two differ: the value of an enum, a model with
its models as dicts. A class begins with version 1, so it goes through `upgrade` first (`upgrading.py`)."""

_DEEPEST = 200
"""Extensions within extensions: more than any state has, and less than the stack holds."""

_REMEMBERED: Final = 8 << 20
"""Bytes of models that are remembered, twice; the objects take some times as much."""

_Build = Callable[[type[Any], Any], Any]


class _Made:
    """Models that were made last, by the bytes that they were made of.

    A thread has the messages of a conversation once more in every checkpoint. Nobody changes what was read on its way
    into the store, so one object may stand for all of them. What was not met for a while is let go.
    """

    def __init__(self) -> None:
        self._new: dict[bytes, Any] = {}
        self._old: dict[bytes, Any] = {}
        self._size = 0

    def get(self, data: bytes) -> Any:
        found = self._new.get(data)
        if found is None and (found := self._old.get(data)) is not None:
            self.put(data, found)
        return found

    def put(self, data: bytes, made: Any) -> None:
        if self._size > _REMEMBERED:
            self._old, self._new, self._size = self._new, {}, 0
        self._new[data] = made
        self._size += len(data)


class Decoder:
    """Reads values.

    Attributes:
        opaque: How many objects of each class were kept as `Opaque`.
        bare: How many objects of each class could not be made, and were kept as their bare data.
        is_strange: Whether classes of the program's own are strangers just now (`as_stranger`).
    """

    def __init__(self, types: TypeRegistry) -> None:
        self.opaque: Counter[str] = Counter()
        self.bare: Counter[str] = Counter()
        self.is_strange = False
        self._types = types
        self._depth = 0
        self._failures: list[BaseException] = []
        self._made = _Made()
        self._stranger: Decoder | None = None

    @contextmanager
    def uncounted(self) -> Iterator[Callable[[], None]]:
        """Read in this block without counting, to compare; calling what it gives counts what was read so far."""
        opaque, bare = self.opaque, self.bare
        self.opaque, self.bare = Counter(), Counter()

        def count() -> None:
            opaque.update(self.opaque)
            bare.update(self.bare)

        try:
            yield count
        finally:
            self.opaque, self.bare = opaque, bare

    @contextmanager
    def as_stranger(self) -> Iterator[None]:
        """Read in this block as one who knows the classes of LangChain and LangGraph, and none of the program's."""
        if self._stranger is None:
            self._stranger = Decoder(TypeRegistry())
            register_known(self._stranger._types)  # noqa: SLF001 - its own class
        types, made = self._types, self._made
        self._types, self._made, self.is_strange = self._stranger._types, self._stranger._made, True  # noqa: SLF001
        try:
            with self.uncounted():
                yield
        finally:
            self._types, self._made, self.is_strange = types, made, False

    def value(self, kind: str | None, data: bytes | None) -> Any:
        """The value of a kind and its bytes.

        Raises:
            BadValueError: They are malformed, or of a kind that is not taken over.
        """
        if kind == "null":
            return None
        content = bytes(data or b"")
        if kind == "bytes":
            return content
        if kind == "bytearray":
            return bytearray(content)
        if kind == "msgpack":
            return self._unpack(content)
        if kind == "json":
            return self._parse(content)
        raise refused_kind(kind)

    def _unpack(self, content: bytes) -> Any:
        self._failures.clear()
        try:
            return _unpacked(content, self._hook)
        except (ValueError, TypeError, RecursionError) as error:
            failure = self._failures[0] if self._failures else error
            if not isinstance(failure, (ValueError, TypeError, RecursionError)):
                # Of ours, with its own words; or an interrupt from the keyboard.
                raise failure from None
            raise malformed(str(error)) from error

    def _hook(self, code: int, data: bytes) -> Any:
        try:
            return self._extension(code, data)
        except BaseException as error:
            # ormsgpack says only that a hook failed.
            self._failures.append(error)
            raise

    def _extension(self, code: int, data: bytes) -> Any:
        if code == MODEL_2:
            made = self._made.get(data)
            if made is not None:
                return made
        made = self._read(code, data)
        if code == MODEL_2 and type(made) not in (Opaque, dict):
            self._made.put(data, made)
        return made

    def _read(self, code: int, data: bytes) -> Any:
        if self._depth >= _DEEPEST:
            raise malformed("extensions are nested too deeply")
        self._depth += 1
        try:
            content = _unpacked(data, self._hook)
        finally:
            self._depth -= 1
        if code == SNAPSHOT:
            return _DeltaSnapshot(content)
        if code == ARRAY:
            return self._array(content)
        if code not in _BUILD:
            raise malformed(f"extension code {code} is not one of LangGraph's")
        # A method, where there is one, is named after the data; that of a model is always the same.
        size = 4 if code in (METHOD, MODEL_2) else 3
        if type(content) is not list or len(content) < size or any(type(w) is not str for w in content[:2]):
            raise malformed("an object without the name of its class")
        method = content[3] if code == METHOD else None
        return self._object(code, content[0], content[1], content[2], method)

    def _object(self, code: int, module: str, name: str, data: Any, method: Any = None) -> Any:
        full = f"{module}.{name}"
        maker = _standard(code, module, name, method)
        build: _Build
        if maker is not None:
            cls, build = type(None), lambda _cls, given: maker(given)
        else:
            known = self._known(module, name)
            if known is None or code == METHOD:
                return self._unknown(code, module, name, data)
            cls, build = known, _BUILD[code]
        try:
            return build(cls, data)
        except Exception:  # noqa: BLE001 - a constructor of the application's may raise anything
            self.bare[full] += 1
            return data

    def _unknown(self, code: int, module: str, name: str, data: Any) -> Opaque:
        is_fields = type(data) is dict and all(type(each) is str for each in data)
        if module == "langgraph.types":
            # LangGraph's own types where only its checkpoints are installed: as they are stored where all of it is.
            if name == "Send" and type(data) is list and len(data) in (2, 3):
                fields = dict(zip(("node", "arg", "timeout"), data, strict=False))
                return self._kept("langgraph.Send", fields, AS_STORED)
            if is_fields:
                return self._kept(f"langgraph.{name}", data, AS_STORED)
        plain = is_fields and (
            code == FIELDS or (code == MODEL_2 and not any(map(_is_nested, data.values())))
        )
        return self._kept(f"{module}.{name}", data, AS_STORED if plain else AS_WRITTEN)

    def _array(self, content: Any) -> Opaque:
        if type(content) is not list or len(content) != 4:
            raise malformed("an array without type, shape, order and bytes")
        kind, shape, order, data = content
        return self._kept(
            "numpy.ndarray", {"dtype": kind, "shape": shape, "order": order, "data": data}, AS_STORED
        )

    def _kept(self, name: str, data: Any, version: int) -> Opaque:
        self.opaque[name] += 1
        return Opaque(name, version, data)

    def _known(self, module: str, name: str) -> type[Any] | None:
        """The class of that name, if its module is loaded and the registry knows it."""
        loaded = sys.modules.get(module)
        # Not getattr: a module may import whatever it is asked for.
        found = vars(loaded).get(name) if isinstance(loaded, ModuleType) else None
        return found if isinstance(found, type) and self._types.by_class(found) is not None else None

    def _parse(self, content: bytes) -> Any:
        try:
            return json.loads(content, object_hook=self._revived)
        except (ValueError, RecursionError) as error:
            raise malformed(str(error)) from error

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
        module, name = ".".join(path[:-1]), path[-1]
        return self._constructed(module, name, data)

    def _constructed(self, module: str, name: str, data: dict[str, Any]) -> Any:
        arguments, fields, method = data.get("args"), data.get("kwargs"), data.get("method")
        if arguments and fields:
            return self._kept(f"{module}.{name}", {"args": arguments, "kwargs": fields}, AS_WRITTEN)
        if not arguments:
            return self._object(FIELDS, module, name, fields or {})
        if type(arguments) is not list:
            raise malformed("an object whose arguments are no list")
        if _standard(METHOD, module, name, method) is not None:
            return self._object(METHOD, module, name, arguments[0], method)
        if len(arguments) == 1 and (module, name) not in standard.SEVERAL:
            return self._object(SINGLE, module, name, arguments[0])
        return self._object(SEVERAL, module, name, arguments)


def _unpacked(data: bytes, hook: Callable[[int, bytes], Any]) -> Any:
    return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)


def _is_nested(value: Any) -> bool:
    """Whether a field of a model may have been something else before it was written: a model, or a tuple."""
    return isinstance(value, (list, dict))


def _standard(code: int, module: str, name: str, method: Any) -> standard.Maker | None:
    if code == METHOD:
        return standard.METHODS.get((module, name, method)) if type(method) is str else None
    table = {SINGLE: standard.SINGLE, SEVERAL: standard.SEVERAL, FIELDS: standard.FIELDS}.get(code, {})
    return table.get((module, name))


def _with_arguments(cls: type[Any], data: Any) -> Any:
    if (cls.__module__, cls.__name__) == ("langgraph.types", "Send"):
        node, argument, *timeout = data
        return cls(node, argument, timeout=timeout[0]) if timeout else cls(node, argument)
    return cls(*data)


def _model(fallback: str) -> _Build:
    def build(cls: type[Any], data: Any) -> Any:
        try:
            return cls(**data)
        except Exception:  # noqa: BLE001 - a validator may raise anything; what was valid once is kept as it is
            return getattr(cls, fallback)(**data)

    return build


_BUILD: Final[dict[int, _Build]] = {
    SINGLE: lambda cls, data: member(cls, data) if issubclass(cls, Enum) else cls(data),
    SEVERAL: _with_arguments,
    FIELDS: lambda cls, data: cls(**data),
    METHOD: lambda cls, data: cls(data),
    MODEL_1: _model("construct"),
    MODEL_2: _model("model_construct"),
}
