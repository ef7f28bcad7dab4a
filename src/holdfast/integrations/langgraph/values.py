"""What a graph may have in its state, and how a store learns of it.

Nothing is ever imported because stored bytes name it. The classes in `known` are known from the start. A class of the
program's own is taken in when a running graph puts an instance of it, under the name of its module and itself. A
process that has put none knows those that it was given: `types=`, `@holdfast.register`, or the allow list that
LangGraph makes of a graph's schemas. Whatever else is stored comes back as `holdfast.Opaque`, with a warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
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
from holdfast.integrations.langgraph.upgrading import upgrade_for
from holdfast.objects.registry import TypeRegistry, can_register
from holdfast.store import Store

_MOST_WARNED: Final = 100
"""So many names are warned about; a store that has more has made its point."""

_OTHER_KINDS: Final[tuple[Callable[[type], Kept | None], ...]] = (kept_secret, kept_v1_model, kept_subclass)


def prepare(store: Store, types: Iterable[type] = ()) -> None:
    """Teach a store the values of graphs. More than once does no harm.

    Args:
        store: The store; its other users see the classes as well.
        types: Classes of the program that may come back from the store before the program has put one.

    Raises:
        InvalidInputError: One of them is of no kind that can be kept.
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
        self._warned: set[str] = set()

    def know(self, classes: Iterable[type]) -> None:
        for cls in classes:
            if self._types.by_class(cls) is None and not self.take(cls):
                # Has the words for what cannot be registered.
                self._types.register(cls)

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
        name = f"{cls.__module__}.{cls.__qualname__}"
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
        return True

    def find(self, name: str) -> bool:
        """Register the class that a stored name stands for, if the program has named it; else warn, once."""
        cls = arrays.class_named(name)
        if cls is not None:
            return self.take(cls)
        if name in self._allowed and self._take_named(*self._allowed[name]):
            return self._types.by_name(name) is not None
        # The program may have registered the class under another name after it was stored under this one.
        if self._types.adopt(name):
            return True
        if name not in self._warned and len(self._warned) < _MOST_WARNED:
            short = name.rpartition(".")[2]
            # From inside a load: no line of the caller's is nearer than any other.
            warnings.warn(
                f"a stored {name!r} came back as holdfast.Opaque, because nothing allows the class: pass it as "
                f"HoldfastSaver(store, types=[{short}]), or put @holdfast.register(name={name!r}) above it",
                HoldfastWarning,
                stacklevel=2,
            )
            # Not before: where warnings are errors, it is raised from each way of decoding.
            self._warned.add(name)
        return False

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
            return self._types.by_class(cls) is not None or self.take(cls)
        except InvalidInputError:
            # LangGraph lists every class of a schema: dates, which are kept as they are, and base classes too.
            return False
