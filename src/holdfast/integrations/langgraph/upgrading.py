"""Objects of imported threads, once their class is allowed: from what LangGraph wrote to what the store keeps.

LangGraph's serializer writes the value of an enum where the store keeps its name, and dumps a model with the models in
it as dicts. An import that does not know the class cannot tell; it keeps the data as it is, under version 0. A class of
the program's own is registered with the `upgrade` of this module, which makes the object of it as LangGraph would, and
hands on its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from holdfast.objects.pydantic_models import is_model

_SETS = (set, frozenset)


def upgrade_for(cls: type[Any], *, with_extra: bool = False) -> Callable[[Any, int], Any]:
    """What to register a class with, so that objects of it that were imported before come back.

    Args:
        cls: The class.
        with_extra: Whether extra fields of a model are kept among its own, as those of messages are.
    """

    def upgrade(data: Any, version: int) -> Any:
        if version != 0:
            raise ValueError(f"there is no version {version}")
        if issubclass(cls, Enum):
            return _member(cls, data)
        if is_model(cls):
            return _fields(cls, data, with_extra=with_extra)
        if callable(getattr(cls, "dict", None)) and hasattr(cls, "__fields_set__"):
            model = cls(**data)
            return {"fields": dict(model.__dict__), "set": sorted(model.__fields_set__)}
        for base in _SETS:
            if issubclass(cls, base):
                return base(data)
        return data

    return upgrade


def _member(cls: type[Enum], value: Any) -> Any:
    member = cls(value)
    # A combination of flags has no name of its own.
    return member.name if member.name in cls.__members__ else member.value


def _fields(cls: Any, data: dict[str, Any], *, with_extra: bool) -> dict[str, Any]:
    try:
        model = cls(**data)
    except Exception:  # noqa: BLE001 - a validator may raise anything; what was valid once is kept, as LangGraph does
        model = cls.model_construct(**data)
    extra = model.__pydantic_extra__ or {}
    if extra and not with_extra:
        raise ValueError(
            "it has fields beyond those of its class; import the thread again with the class in types="
        )
    return {**model.__dict__, **extra}
