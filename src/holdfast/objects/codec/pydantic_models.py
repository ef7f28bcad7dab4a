"""The shape of pydantic models, without ever importing pydantic.

A model is its fields, plus three things that equality and `model_dump` depend on: which fields were set by the
caller, extra fields where the model allows them, and private attributes. They are stored beside the fields, and only
where they say something.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MemberDescriptorType
from typing import Any

from holdfast.objects.codec.classes import (
    MISSING,
    Default,
    cached_names,
    check_fields,
    default_of,
    mismatch,
    other_attribute,
    refuse_other_attributes,
    unset_field,
)

_OWN_SLOTS = frozenset(
    ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__", "__weakref__")
)


def is_model(cls: type) -> bool:
    """Whether this is a pydantic (2 or later) model class."""
    return hasattr(cls, "__pydantic_validator__") and hasattr(cls, "__pydantic_fields_set__")


def unsaved_slots(cls: type) -> Iterator[str]:
    """Slots that a model's class, or one above it, has beside those of pydantic: nothing stores what is in them."""
    for base in cls.__mro__:
        for name, attribute in vars(base).items():
            if isinstance(attribute, MemberDescriptorType) and name not in _OWN_SLOTS:
                yield name


def refuse_slots(value: Any, slots: tuple[str, ...]) -> None:
    """Raise where something is in one of these slots: it would be lost in silence."""
    for name in slots:
        if hasattr(value, name):
            raise other_attribute(value, name)


class ModelShape:
    """An instance of a pydantic model."""

    __slots__ = ("_cached", "_cls", "_unsaved_slots")

    def __init__(self, cls: type[Any]) -> None:
        # Fields are asked for each time: pydantic may complete a model after it was registered.
        self._cls = cls
        self._cached = frozenset(cached_names(cls))
        self._unsaved_slots = tuple(unsaved_slots(cls))

    def take(self, value: Any) -> tuple[Any, Any]:
        """The fields by name, and what else makes this instance."""
        names = _fields(self._cls)
        contents = value.__dict__
        refuse_other_attributes(value, self._cached | names.keys())
        refuse_slots(value, self._unsaved_slots)
        for name in names:
            if name not in contents:
                raise unset_field(value, name)
        extra: dict[str, Any] = {}
        if value.__pydantic_fields_set__ != names.keys():
            extra["set"] = sorted(value.__pydantic_fields_set__)
        if value.__pydantic_extra__:
            extra["extra"] = dict(value.__pydantic_extra__)
        if value.__pydantic_private__:
            extra["private"] = dict(value.__pydantic_private__)
        return {name: contents[name] for name in names}, extra or None

    def make(self, data: Any, extra: Any) -> Any:
        """The model, without validation: it was valid when it was saved."""
        fields = _fields(self._cls)
        beside = self._checked(extra)
        if extra is None and self._cls.model_config.get("extra") == "allow":
            data, beside = _sorted_out(data, fields)
        check_fields(self._cls, data, list(fields))
        value = object.__new__(self._cls)
        contents = {
            name: data[name] if name in data else default_of(self._cls, name, _default(field, data), value)
            for name, field in fields.items()
        }
        extras = beside.get("extra")
        if extras is None and self._cls.model_config.get("extra") == "allow":
            extras = {}
        # After an upgrade, the names of fields that are gone may still be among those that were set.
        known = fields.keys() | (extras or {}).keys()
        chosen = set(beside.get("set", data)) & known
        object.__setattr__(value, "__dict__", contents)
        object.__setattr__(value, "__pydantic_fields_set__", chosen)
        object.__setattr__(value, "__pydantic_extra__", extras)
        object.__setattr__(value, "__pydantic_private__", self._private(beside.get("private")))
        return value

    def _checked(self, extra: Any) -> dict[str, Any]:
        if extra is None:
            return {}
        expected = {"set": list, "extra": dict, "private": dict}
        if type(extra) is not dict or any(expected.get(name) is not type(extra[name]) for name in extra):
            raise mismatch(self._cls, "what was stored beside its fields is not a model's")
        if any(type(name) is not str for name in extra.get("set", ())):
            raise mismatch(self._cls, "a field name is no text")
        return extra

    def _private(self, stored: dict[str, Any] | None) -> dict[str, Any] | None:
        declared = self._cls.__private_attributes__
        if not declared and not stored:
            return None
        contents = dict(stored or {})
        for name in contents:
            if name not in declared:
                raise mismatch(self._cls, f"it has no private attribute {name!r}")
        for name, attribute in declared.items():
            default = MISSING if name in contents else attribute.get_default()
            # pydantic leaves a private attribute without a default unset; its marker for that is of a private type.
            if default is not MISSING and type(default).__name__ != "PydanticUndefinedType":
                contents[name] = default
        return contents


def _sorted_out(data: Any, fields: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Fields and the rest, of a model that another program stored as one dict, as pydantic itself tells them apart."""
    more = [name for name in data if name not in fields and type(name) is str] if type(data) is dict else []
    if not more:
        return data, {}
    own = {name: content for name, content in data.items() if name in fields}
    return own, {"extra": {name: data[name] for name in more}, "set": list(data)}


def _fields(cls: Any) -> dict[str, Any]:
    fields: dict[str, Any] = cls.__pydantic_fields__
    return fields


def _default(field: Any, data: dict[str, Any]) -> Default:
    if field.is_required():
        return lambda _value: MISSING
    if getattr(field, "default_factory_takes_validated_data", False):
        return lambda _value: field.get_default(call_default_factory=True, validated_data=dict(data))
    return lambda _value: field.get_default(call_default_factory=True)
