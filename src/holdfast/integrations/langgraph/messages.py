"""LangChain's messages and documents as data: the fields that say something, by name.

A state has thousands of messages and is saved after every step, so they come apart and together again faster than other
pydantic models do. Stored are the fields that were set, and those that differ from their default; the others are left
out, and get the default of the class when the message is loaded. Nothing is validated again.

Which fields there are to look at depends only on which were set, and in a conversation that is nearly always one of a
few sets. A `_Plan` has what follows from one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final

from holdfast.objects.codec.classes import (
    cached_names,
    mismatch,
    other_attribute,
    refuse_other_attributes,
    unset_field,
)
from holdfast.objects.codec.pydantic_models import is_model, unsaved_slots
from holdfast.objects.document.dirty import PLAIN

_MOST_PLANS: Final = 200
"""Of one class; what lies beyond is worked out each time, so that odd messages cannot fill the memory."""

_FACTORIES: Final = (dict, list)

_set = object.__setattr__


def suits(cls: type[Any]) -> bool:
    """Whether a class comes apart in this way: a pydantic model without private attributes, or slots of its own."""
    return is_model(cls) and not cls.__private_attributes__ and not any(unsaved_slots(cls))


class _Plan:
    """What follows from which fields of an instance were set."""

    __slots__ = ("chosen", "defaults", "get", "kinds", "names", "rest")

    def __init__(self, chosen: frozenset[str], fields: Iterable[str], defaults: dict[str, Any]) -> None:
        self.chosen = chosen
        others = [name for name in fields if name not in chosen and name in defaults]
        self.names = [name for name in fields if name not in others]
        self.get = _getter(self.names)
        self.rest = _getter(others)
        self.defaults = tuple([defaults[name] for name in others])
        # No instance has kinds of None: where a field has neither been set nor has a default, the long way is taken.
        self.kinds = [type(default) for default in self.defaults] if chosen.issuperset(self.names) else None


class MessageShape:
    """The instances of one class of messages, or of documents."""

    __slots__ = (
        "_allows_extra",
        "_cached",
        "_cls",
        "_defaults",
        "_fresh",
        "_last",
        "_made",
        "_names",
        "_plans",
    )

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls
        fields = cls.__pydantic_fields__
        self._names = tuple(fields)
        self._cached = frozenset((*self._names, *cached_names(cls)))
        self._allows_extra = cls.model_config.get("extra") == "allow"
        self._fresh: dict[str, Callable[[], Any]] = {
            name: field.default_factory
            for name, field in fields.items()
            if field.default_factory in _FACTORIES
        }
        # Only defaults that are the same for every instance: of any other, the value itself is stored.
        self._defaults = {
            name: field.default for name, field in fields.items() if type(field.default) in PLAIN
        }
        self._defaults |= {name: factory() for name, factory in self._fresh.items()}
        self._plans: dict[frozenset[str], _Plan] = {}
        self._made: dict[tuple[Any, ...], tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]] = {}
        self._last = self._plan(frozenset(("content",)))

    def take(self, value: Any) -> tuple[Any, Any]:
        """The fields by name."""
        plan = self._last
        if value.__pydantic_fields_set__ != plan.chosen:
            plan = self._last = self._plan(frozenset(value.__pydantic_fields_set__))
        contents = value.__dict__
        if len(contents) == len(self._names) and not value.__pydantic_extra__:
            try:
                rest = plan.rest(contents)
                # A default list or dict may have been added to in place.
                if list(map(type, rest)) == plan.kinds and rest == plan.defaults:
                    return dict(zip(plan.names, plan.get(contents), strict=True)), None
            except KeyError:
                # It lacks a field and has something else in its place.
                pass
        return self._take_all(value, contents)

    def _take_all(self, value: Any, contents: dict[str, Any]) -> tuple[Any, Any]:
        """The same for an instance that has more to it: extra fields, or values that nobody set."""
        refuse_other_attributes(value, self._cached)
        if value.__pydantic_private__:
            raise other_attribute(value, next(iter(value.__pydantic_private__)))
        chosen = value.__pydantic_fields_set__
        data: dict[str, Any] = {}
        for name in self._names:
            if name not in contents:
                raise unset_field(value, name)
            if name in chosen or not self._is_default(name, contents[name]):
                data[name] = contents[name]
        for name, content in (value.__pydantic_extra__ or {}).items():
            if name in contents:
                raise other_attribute(value, name)
            data[name] = content
        unset = [name for name in data if name not in chosen]
        return data, {"unset": unset} if unset else None

    def _is_default(self, name: str, content: Any) -> bool:
        if name not in self._defaults:
            return False
        default = self._defaults[name]
        return type(content) is type(default) and bool(content == default)

    def make(self, data: Any, extra: Any) -> Any:
        """The message, without validation."""
        if type(data) is not dict:
            raise mismatch(self._cls, "it is no set of fields")
        names = tuple(data)
        template, fresh = self._made.get(names) or self._template(names)
        contents = {**template, **data}
        extras: dict[str, Any] | None = {} if self._allows_extra else None
        if len(contents) != len(self._names):
            extras = self._extras(contents)
        for name, factory in fresh:
            contents[name] = factory()
        value = object.__new__(self._cls)
        _set(value, "__dict__", contents)
        _set(value, "__pydantic_fields_set__", set(data) if extra is None else self._chosen(data, extra))
        _set(value, "__pydantic_extra__", extras)
        _set(value, "__pydantic_private__", None)
        return value

    def _template(self, names: tuple[Any, ...]) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
        """All fields in their order, at the defaults of those that are not stored, and who makes fresh ones."""
        for name in self._names:
            if name not in names and name not in self._defaults:
                raise mismatch(self._cls, f"field {name!r} was not stored, and has no default")
        stored = {*names, *self._fresh}
        template = {name: None if name in stored else self._defaults[name] for name in self._names}
        fresh = [(name, factory) for name, factory in self._fresh.items() if name not in names]
        if len(self._made) < _MOST_PLANS:
            self._made[names] = template, fresh
        return template, fresh

    def _extras(self, contents: dict[str, Any]) -> dict[str, Any]:
        """Take out what is no field. A field that another version of the library has is an extra one here."""
        extras = {name: contents.pop(name) for name in list(contents) if name not in self._names}
        if not self._allows_extra or any(type(name) is not str for name in extras):
            raise mismatch(self._cls, f"it has no field {next(iter(extras))!r}")
        return extras

    def _chosen(self, data: dict[str, Any], extra: Any) -> set[str]:
        if type(extra) is not dict or extra.keys() != {"unset"} or type(extra["unset"]) is not list:
            raise mismatch(self._cls, "what was stored beside its fields is not a message's")
        return {name for name in data if name not in extra["unset"]}

    def _plan(self, chosen: frozenset[str]) -> _Plan:
        plan = self._plans.get(chosen)
        if plan is None:
            plan = _Plan(chosen, self._names, self._defaults)
            if len(self._plans) < _MOST_PLANS:
                self._plans[chosen] = plan
        return plan


def _getter(names: list[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """What takes the values of these keys out of a dict, as a tuple."""
    if not names:
        return lambda _contents: ()
    get = itemgetter(*names)
    return get if len(names) > 1 else lambda contents: (get(contents),)
