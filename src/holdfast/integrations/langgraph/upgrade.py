"""Objects of imported threads, once their class is allowed: from what LangGraph wrote to what the store keeps.

LangGraph's serializer writes the value of an enum where the store keeps its name, and dumps a model with the models in
it as dicts. An import that does not know the class cannot tell; it keeps the data as it is, under version 0. A class of
the program's own is registered with the `upgrade` of this module, which makes the object of it as LangGraph would, and
hands on its fields. Where the class does not take the data, the object stays an `Opaque`, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

from holdfast.errors import HoldfastWarning
from holdfast.integrations.langgraph.safe_serde import enum_member
from holdfast.objects.codec.classes import Taken
from holdfast.objects.codec.pydantic_models import ModelShape, is_model
from holdfast.objects.codec.registry import full_name

_SETS = (set, frozenset)


def upgrade_for(cls: type[Any], *, with_extra: bool = False) -> Callable[[Any, int], Any]:
    """What to register a class with, so that objects of it that were imported before come back.

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
