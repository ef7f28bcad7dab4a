"""What a graph may have in its state, and how a store learns of it.

Nothing is ever imported because stored bytes name it. The classes in `known` are known from the start. A class of the
program's own is taken in when a running graph puts an instance of it, under the name of its module and itself. A
process that has put none knows those that it was given: in `types=`, one by one or as the schema of a graph that names
them, by `@holdfast.register`, or in the allow list that LangGraph makes where it is told to be strict. What the program
registers is written under the name that it gave; either way, the class is found under both. Whatever else is stored
comes back as `holdfast.Opaque`, with a warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from importlib import import_module
from typing import Any, Final

from holdfast.errors import HoldfastWarning, InvalidInputError
from holdfast.integrations.langgraph import arrays
from holdfast.integrations.langgraph.kinds import (
    Kept,
    kept_secret,
    kept_subclass,
    kept_v1_model,
    stand_in_for,
)
from holdfast.integrations.langgraph.known import register_known
from holdfast.integrations.langgraph.messages import MessageShape, suits
from holdfast.integrations.langgraph.safe_serde import enum_member
from holdfast.integrations.langgraph.schemas import classes_in, is_schema
from holdfast.objects.codec.classes import Taken, class_name
from holdfast.objects.codec.pydantic_models import ModelShape, is_model
from holdfast.objects.codec.registry import TypeRegistry, can_register, full_name
from holdfast.store import Store

_MOST_WARNED: Final = 100
"""So many names are warned about; a store that has more has made its point."""

_SETS = (set, frozenset)

_OTHER_KINDS: Final[tuple[Callable[[type], Kept | None], ...]] = (kept_secret, kept_v1_model, kept_subclass)


_FRAMEWORKS: Final = (
    "holdfast",
    "langgraph",
    "langchain_core",
    "anyio",
    "asyncio",
    "concurrent",
    "threading",
)
"""Whose lines a warning does not point to."""


def prepare(store: Store, types: Iterable[Any] = ()) -> None:
    """Teach a store the values of graphs. More than once does no harm.

    Args:
        store: The store; its other users see the classes as well.
        types: Classes of the program that may come back from the store before the program has put one, and schemas
            (a TypedDict, `list[Doc]`, a union): all classes that these, and the fields of classes, name are meant.

    Raises:
        InvalidInputError: A class that is given itself is of no kind that can be kept.
    """
    _values_of(store).know(types)


def allow(store: Store, classes: Iterable[tuple[str, ...] | type]) -> None:
    """Let classes come back from a store, as `with_allowlist` of LangGraph's savers has them.

    Args:
        store: A store; it is prepared if it was not.
        classes: Classes, or (module, name) pairs. A module is imported when something of it is met in the store; what
            cannot be found there, or cannot be kept, is passed over.
    """
    _values_of(store).allow(classes)


def knows(store: Store) -> Callable[[type], bool]:
    """What tells whether objects of a class may come back from a store."""
    types = store._parts.types  # noqa: SLF001 - as above
    # A question that takes no class in: an import asks it about classes that hostile bytes name.
    return lambda cls: types.by_class(cls) is not None


def _values_of(store: Store) -> _Values:
    types = store._parts.types  # noqa: SLF001 - stand-ins and shapes are for integrations alone
    values = getattr(types.finder, "__self__", None)
    if not isinstance(values, _Values):
        values = _Values(types)
        register_known(types)
        types.on_unknown(values.take)
        types.on_missing(values.find)
    return values


def _is_message(cls: type) -> bool:
    base = getattr(sys.modules.get("langchain_core.messages.base"), "BaseMessage", None)
    return base is not None and issubclass(cls, base) and suits(cls)


class _Values:
    """What one registry was taught."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._allowed: dict[str, tuple[str, str]] = {}
        self._bare: dict[str, dict[str, type]] = {}
        """The classes that were taken, by their names without and with the module."""
        self._warned: set[str] = set()

    def know(self, types: Iterable[Any]) -> None:
        for each in types:
            if not is_schema(each) and not self._take_known(each):
                # Has the words for what cannot be registered.
                self._types.register(each)
            for cls in classes_in(each):
                self._take_quietly(cls)

    def allow(self, classes: Iterable[tuple[str, ...] | type]) -> None:
        for each in classes:
            if isinstance(each, type):
                self._take_quietly(each)
            elif len(each) == 2 and f"{each[0]}.{each[1]}" not in self._allowed:
                module, name = each
                self._allowed[f"{module}.{name}"] = module, name
                if module in sys.modules:
                    self._take_named(module, name)

    def take(self, cls: type) -> bool:
        """Register a class that is about to be saved, if it is of a kind that can be kept."""
        stand_in = stand_in_for(cls)
        if stand_in is not None:
            self._types.replace(cls, stand_in)
            return True
        name = full_name(cls)
        if _is_message(cls):
            upgrade = upgrade_for(cls, with_extra=True)
            self._types.register(cls, name=name, shape=MessageShape(cls), upgrade=upgrade)
        elif can_register(cls):
            self._types.register(cls, name=name, upgrade=upgrade_for(cls))
        elif arrays.is_array_class(cls):
            self._keep(cls, arrays.array_name(cls), arrays.kept_array(cls))
        else:
            kept = next(filter(None, (kind(cls) for kind in _OTHER_KINDS)), None)
            if kept is None:
                return False
            self._keep(cls, name, kept)
        # A module that registers it may be imported only now: what the program says itself counts.
        self._types.give_way(cls)
        self._note(cls)
        return True

    def find(self, name: str) -> bool:
        """Register the class that a stored name stands for, if the program has named it; else warn, once."""
        cls = arrays.class_named(name)
        if cls is not None:
            return self.take(cls)
        if name in self._allowed and self._take_named(*self._allowed[name]):
            return self._types.by_name(name) is not None
        # The program may have registered the class under another name after it was stored under this one.
        if self._types.adopt(name) or self._find_bare(name):
            return True
        if name not in self._warned and len(self._warned) < _MOST_WARNED:
            warnings.warn(self._advice(name), HoldfastWarning, stacklevel=_callers_level())
            # Not before: where warnings are errors, it is raised from each way of decoding.
            self._warned.add(name)
        return False

    def _find_bare(self, name: str) -> bool:
        """Know a class by the name that `@holdfast.register` gives it, unless there are several of that name."""
        for module, attribute in [each for each in self._allowed.values() if each[1] == name]:
            self._take_named(module, attribute)
        found = list(self._bare.get(name, {}).values())
        return len(found) == 1 and self._types.adopt(name, found[0])

    def _advice(self, name: str) -> str:
        short = name.rpartition(".")[2]
        came_back = f"a stored {name!r} came back as holdfast.Opaque, because nothing allows the class"
        alike = [full for classes in self._bare.values() for full in classes if full.split(".")[-1] == short]
        if alike:
            # Given, and stored under the name of another module: it was moved, or it is another class.
            return (
                f"{came_back} under that name. This program knows {' and '.join(sorted(alike))}: if that is the class, "
                f"put @holdfast.register(name={name!r}) above it"
            )
        return (
            f"{came_back}: pass the state of the graph, HoldfastSaver(store, types=[State]), if its annotations name "
            f"the class; or the class, types=[{short}]; or put @holdfast.register(name={name!r}) above it"
        )

    def _note(self, cls: type) -> None:
        # Those in `known` have names that are not their modules', and a Document may be anybody's.
        if cls.__module__.partition(".")[0] not in _FRAMEWORKS:
            self._bare.setdefault(class_name(cls), {})[full_name(cls)] = cls

    def _take_known(self, cls: Any) -> bool:
        if not isinstance(cls, type):
            return False
        if self._types.by_class(cls) is None:
            return self.take(cls)
        self._note(cls)
        return True

    def _keep(self, cls: type, name: str, kept: Kept) -> None:
        self._types.register(cls, name=name, encode=kept.encode, decode=kept.decode, upgrade=upgrade_for(cls))

    def _take_named(self, module: str, name: str) -> bool:
        try:
            # The program named it; what is stored only says that it is needed now.
            found: Any = getattr(import_module(module), name, None)
        except ImportError:
            return False
        return isinstance(found, type) and self._take_quietly(found)

    def _take_quietly(self, cls: type) -> bool:
        try:
            return self._take_known(cls)
        except InvalidInputError:
            # LangGraph lists every class of a schema: dates, which are kept as they are, and base classes too.
            return False


def upgrade_for(cls: type[Any], *, with_extra: bool = False) -> Callable[[Any, int], Any]:
    """What to register a class with, so that objects of it that were imported before it was allowed come back.

    LangGraph's serializer writes the value of an enum where the store keeps its name, and dumps a model with the models
    in it as dicts. An import that does not know the class keeps that data as it is, under version 0. This makes the
    object of it as LangGraph would, and hands on its fields; where the class does not take the data, the object stays
    an `Opaque`, with a warning.

    Args:
        cls: The class.
        with_extra: Whether extra fields of a model are kept among its own, as those of messages are.
    """
    warned = False

    def upgrade(data: Any, version: int) -> Any:
        nonlocal warned
        if version != 0:
            raise ValueError(f"there is no version {version}")
        try:
            return _upgraded(cls, data, with_extra=with_extra)
        except Exception as error:
            # Once: a thread has the same object in each of its checkpoints.
            if not warned:
                warned = True
                warnings.warn(_refusal(cls, error), HoldfastWarning, stacklevel=2)
            raise

    return upgrade


def _upgraded(cls: type[Any], data: Any, *, with_extra: bool) -> Any:
    if issubclass(cls, Enum):
        return _name(cls, enum_member(cls, data))
    if is_model(cls):
        return _fields(cls, data, with_extra=with_extra)
    if callable(getattr(cls, "dict", None)) and hasattr(cls, "__fields_set__"):
        model = cls(**data)
        return {"fields": dict(model.__dict__), "set": sorted(model.__fields_set__)}
    for base in _SETS:
        if issubclass(cls, base):
            return base(data)
    return data


def _name(cls: type[Enum], found: Any) -> Any:
    # A combination of flags has no name of its own.
    return found.name if found.name in cls.__members__ else found.value


def _refusal(cls: type, error: Exception) -> str:
    return (
        f"an imported {full_name(cls)} came back as holdfast.Opaque, because the class does not take what LangGraph "
        f"wrote of it ({type(error).__name__}: {error})"
    )


def _fields(cls: Any, data: dict[str, Any], *, with_extra: bool) -> Any:
    try:
        model = cls(**data)
    except Exception:  # noqa: BLE001 - a validator may raise anything; what was valid once is kept, as LangGraph does
        model = cls.model_construct(**data)
    if with_extra:
        return {**model.__dict__, **(model.__pydantic_extra__ or {})}
    return Taken(*ModelShape(cls).take(model))


def _callers_level() -> int:
    """How many frames up the line is that made a graph or a saver load; none is found from a worker thread."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - documented, and what warnings itself uses
    while frame.f_globals.get("__name__", "").partition(".")[0] in _FRAMEWORKS:
        if frame.f_back is None:
            return 2
        level, frame = level + 1, frame.f_back
    return level
