"""LangChain's messages and documents as data: the fields that say something, by name.

A state has thousands of messages and is saved after every step, so they come apart and together again faster than other
pydantic models do. Stored are the fields that were set, and those that differ from their default; the others are left
out, and get the default of the class when the message is loaded. Nothing is validated again.
"""

from __future__ import annotations

from collections.abc import Callable
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

_FACTORIES: Final = (dict, list)

_set = object.__setattr__


def suits(cls: type[Any]) -> bool:
    """Whether a class comes apart in this way: a pydantic model without private attributes, or slots of its own."""
    return is_model(cls) and not cls.__private_attributes__ and not any(unsaved_slots(cls))


class MessageShape:
    """The instances of one class of messages, or of documents."""

    __slots__ = (
        "_allows_extra",
        "_cached",
        "_cls",
        "_defaults",
        "_fresh",
        "_names",
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

    def take(self, value: Any) -> tuple[Any, Any]:
        """The fields by name; beside them, the names of those that nobody set."""
        contents = value.__dict__
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
        contents: dict[str, Any] = {}
        for name in self._names:
            if name in data:
                contents[name] = data[name]
            elif name in self._fresh:
                contents[name] = self._fresh[name]()
            elif name in self._defaults:
                contents[name] = self._defaults[name]
            else:
                raise mismatch(self._cls, f"field {name!r} was not stored, and has no default")
        # A field that another version of the library has is an extra one here.
        extras = {name: content for name, content in data.items() if name not in contents}
        if extras and (not self._allows_extra or any(type(name) is not str for name in extras)):
            raise mismatch(self._cls, f"it has no field {next(iter(extras))!r}")
        value = object.__new__(self._cls)
        _set(value, "__dict__", contents)
        _set(value, "__pydantic_fields_set__", set(data) if extra is None else self._chosen(data, extra))
        _set(value, "__pydantic_extra__", extras if self._allows_extra else None)
        _set(value, "__pydantic_private__", None)
        return value

    def _chosen(self, data: dict[str, Any], extra: Any) -> set[str]:
        if type(extra) is not dict or extra.keys() != {"unset"} or type(extra["unset"]) is not list:
            raise mismatch(self._cls, "what was stored beside its fields is not a message's")
        return {name for name in data if name not in extra["unset"]}
