"""The classes that a schema names: those in the annotations of a state, and in the fields of those classes in turn.

Only what the program itself wrote down is followed, as far as it goes: a name in an annotation that stands for nothing
here (imported for type checkers only, or local to a function) is passed over, and so is everything that is no class.
"""

from __future__ import annotations

import enum
import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Final

_WRAPPERS: Final = (typing.TypeVar, typing.NewType, types.UnionType, typing.ForwardRef)


def is_schema(given: Any) -> bool:
    """Whether this is no class of objects, but says which classes there are: a TypedDict, `list[Doc]`, a union."""
    if isinstance(given, type) and typing.get_origin(given) is None:
        return given is Any or _is_typed_dict(given)
    return typing.get_origin(given) is not None or isinstance(given, _WRAPPERS) or hasattr(given, "__value__")


def classes_in(given: Any) -> Iterator[type]:
    """Every class that a schema, or the fields of a class, name; each once, a class that is given itself among them."""
    seen: set[int] = set()
    kept: list[Any] = []
    # Types may name themselves, so what was seen is not gone into again.
    waiting: list[tuple[Any, type | None]] = [(given, None)]
    while waiting:
        hint, owner = waiting.pop()
        if isinstance(hint, str | typing.ForwardRef):
            hint = _resolved(hint, owner)
        if hint is None or id(hint) in seen:
            continue
        seen.add(id(hint))
        # An id is a thing's own only as long as that is there.
        kept.append(hint)
        if isinstance(hint, type) and typing.get_origin(hint) is None:
            if not _is_typed_dict(hint):
                yield hint
            waiting.extend(_annotated(hint))
        else:
            waiting.extend((each, owner) for each in _parts(hint))


def _parts(hint: Any) -> Iterable[Any]:
    """What a type that is no class is made of."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return (hint.__origin__,)
    if origin is typing.Literal:
        return [type(each) for each in typing.get_args(hint) if isinstance(each, enum.Enum)]
    if origin is not None:
        # What is in the class is not in its objects.
        return () if origin is typing.ClassVar else (origin, *typing.get_args(hint))
    if isinstance(hint, typing.TypeVar):
        return (hint.__bound__, *hint.__constraints__)
    if isinstance(hint, typing.NewType):
        return (hint.__supertype__,)
    # `type Name = ...`; evaluated when it is asked for.
    return _quietly(lambda: [hint.__value__]) or ()


def _annotated(cls: type[Any]) -> Iterator[tuple[Any, type]]:
    """What the fields of a class are, of whatever kind it is, and in which class that is written."""
    for base in cls.__mro__:
        if base.__module__ not in ("builtins", "typing", "enum"):
            yield from ((each, base) for each in _annotations(base).values())
    # Pydantic has found names that are local to a function, and has put in what a generic model was made for.
    fields = getattr(cls, "model_fields", None)
    if isinstance(fields, dict):
        yield from ((getattr(field, "annotation", None), cls) for field in fields.values())
    yield from ((field.type, cls) for field in getattr(cls, "__attrs_attrs__", ()))


def _annotations(cls: type) -> dict[str, Any]:
    found = _quietly(lambda: inspect.get_annotations(cls))
    if found is None and sys.version_info >= (3, 14):
        # There, annotations are evaluated now; one that cannot be must not hide the others.
        import annotationlib

        found = _quietly(lambda: annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))
    return found or {}


def _resolved(name: str | typing.ForwardRef, owner: type | None) -> Any:
    """What a name in the annotations of a class stands for, or None."""
    if owner is None:
        return None
    module = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
    parameters = {each.__name__: each for each in getattr(owner, "__type_params__", ())}
    within = {**vars(owner), **parameters, owner.__name__: owner}
    # The public way to have one looked up is as the annotation of something.
    holder = type("Holder", (), {"__annotations__": {"it": name}})
    found = _quietly(lambda: typing.get_type_hints(holder, module, within, include_extras=True))
    return found and found["it"]


def _quietly(look: Any) -> Any:
    try:
        return look()
    except Exception:  # noqa: BLE001 - an annotation is any expression, and may raise anything
        return None


def _is_typed_dict(cls: type) -> bool:
    # Not typing.is_typeddict: it does not know those of typing_extensions.
    return issubclass(cls, dict) and hasattr(cls, "__total__") and hasattr(cls, "__required_keys__")
