"""A plain value made into the type the caller asks for: `load(as_=Plan)` of a state that was saved as a dict.

An object that already is one stays as it is. Otherwise type hints say what each part should be: fields of dataclasses,
attrs classes and named tuples, items of lists and tuples, values of dicts, the first fitting member of a union.
Nothing is coerced: text does not become a number. pydantic models validate for themselves, by their own rules.
"""

from __future__ import annotations

import dataclasses
import typing
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, TypeVar

from holdfast.errors import ErrorCode, StateError
from holdfast.objects.codec import paths
from holdfast.objects.codec.classes import class_name
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.pydantic_models import is_model
from holdfast.objects.codec.registry import TypeRegistry

T = TypeVar("T")

_SEQUENCES: Final = {list: list, set: set, frozenset: frozenset}
# An int is fine where a float is asked for, as type checkers have it.
_WIDER: Final = {float: (int,), complex: (int, float)}


class _NoFitError(Exception):
    """The value is not what the hint asks for."""

    def __init__(self, why: str, steps: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.steps = steps


def build(value: Any, as_: type[T], types: TypeRegistry) -> T:  # noqa: ARG001 - decoding has used them already
    """The value as an instance of `as_`.

    Raises:
        StateError: It is not one, and cannot be made one (`type-mismatch`).
    """
    try:
        built: T = _fit(value, as_)
    except (_NoFitError, RecursionError) as error:
        why = str(error) if isinstance(error, _NoFitError) else "it lies too deep"
        where = paths.render(error.steps if isinstance(error, _NoFitError) else ())
        raise StateError(
            f"{where} cannot be loaded as {_name(as_)}: {why}",
            code=ErrorCode.TYPE_MISMATCH,
            hint="load() without as_= to see what was saved",
            path=where,
        ) from error
    return built


def _fit(value: Any, hint: Any) -> Any:
    hint = _bare(hint)
    if hint is Any or hint is object:
        return value
    origin = typing.get_origin(hint)
    if origin in {typing.Union, UnionType}:
        return _fit_union(value, typing.get_args(hint))
    if origin is typing.Literal:
        return _fit_literal(value, typing.get_args(hint))
    if origin is not None:
        return _fit_generic(value, origin, typing.get_args(hint))
    if hint is None:
        hint = NoneType
    if not isinstance(hint, type):
        # A type variable, a protocol of some library: nothing to hold the value against.
        return value
    return _fit_class(value, hint)


def _bare(hint: Any) -> Any:
    """Without Annotated, Final, ClassVar, Required and the like around it."""
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated or origin in {typing.Final, typing.Required, typing.NotRequired}:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        else:
            return hint


def _fit_union(value: Any, members: tuple[Any, ...]) -> Any:
    for member in members:
        # The type it has already goes before a type it could be made into.
        if isinstance(member, type) and type(value) is member:
            return value
    failures = []
    for member in members:
        try:
            return _fit(value, member)
        except _NoFitError as failure:
            failures.append(failure)
    raise max(failures, key=lambda failure: len(failure.steps))


def _fit_literal(value: Any, choices: tuple[Any, ...]) -> Any:
    if any(type(value) is type(choice) and value == choice for choice in choices):
        return value
    raise _NoFitError(f"it is none of {', '.join(map(repr, choices))}")


def _fit_generic(value: Any, origin: Any, arguments: tuple[Any, ...]) -> Any:
    if origin in _SEQUENCES:
        _expect(value, origin)
        items = [_fit_part(item, arguments[0], paths.index_step(at)) for at, item in enumerate(value)]
        return _SEQUENCES[origin](items)
    if origin is dict:
        _expect(value, dict)
        key_hint, value_hint = arguments
        return {
            _fit_part(key, key_hint, paths.into_key_step(key)): _fit_part(
                item, value_hint, paths.key_step(key)
            )
            for key, item in value.items()
        }
    if origin is tuple:
        return _fit_tuple(value, arguments)
    if isinstance(origin, type):
        return _fit_class(value, origin)
    return value


def _fit_tuple(value: Any, arguments: tuple[Any, ...]) -> Any:
    _expect(value, tuple)
    if len(arguments) == 2 and arguments[1] is ...:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise _NoFitError(f"it has {len(value)} items, not {len(arguments)}")
    pairs = zip(value, arguments, strict=True)
    return tuple(_fit_part(item, hint, paths.index_step(at)) for at, (item, hint) in enumerate(pairs))


def _fit_part(value: Any, hint: Any, step: str) -> Any:
    try:
        return _fit(value, hint)
    except _NoFitError as failure:
        raise _NoFitError(str(failure), (step, *failure.steps)) from failure.__cause__


def _fit_class(value: Any, cls: type[Any]) -> Any:
    if typing.is_typeddict(cls):
        return _fit_typed_dict(value, cls)
    if _is_one(value, cls) or type(value) in _WIDER.get(cls, ()):
        return value
    if is_model(cls):
        return _validated(value, cls)
    if issubclass(cls, Enum):
        return _member(value, cls)
    names = _field_names(cls)
    if names is not None and type(value) is dict:
        return _with_fields(value, cls, names)
    raise _NoFitError(f"it is {_kind(value)}, not {class_name(cls)}")


def _is_one(value: Any, cls: type[Any]) -> bool:
    # True is an int to Python, but nobody who saves a flag means a number.
    if type(value) is bool and cls in {int, float, complex}:
        return False
    try:
        return isinstance(value, cls)
    except TypeError:
        # A protocol that cannot be checked: nothing to hold the value against.
        return True


def _fit_typed_dict(value: Any, cls: Any) -> dict[str, Any]:
    _expect(value, dict)
    hints = _hints(cls)
    for key in sorted(cls.__required_keys__ - value.keys()):
        # Python does not see NotRequired in annotations that are text.
        if typing.get_origin(hints.get(key)) is not typing.NotRequired:
            raise _NoFitError(f"it has no key {key!r}")
    return {key: _fit_part(part, hints.get(key, Any), paths.key_step(key)) for key, part in value.items()}


def _validated(value: Any, cls: Any) -> Any:
    try:
        return cls.model_validate(value)
    except ValueError as error:
        raise _NoFitError(str(error)) from error


def _member(value: Any, cls: type[Enum]) -> Enum:
    if type(value) is str and value in cls.__members__:
        return cls.__members__[value]
    try:
        return cls(value)
    except (ValueError, TypeError) as error:
        raise _NoFitError(f"it is no member of {class_name(cls)}") from error


def _field_names(cls: Any) -> dict[str, str] | None:
    """The fields of a class and the argument of its constructor for each; "" where it takes none."""
    if dataclasses.is_dataclass(cls):
        return {field.name: field.name if field.init else "" for field in dataclasses.fields(cls)}
    if hasattr(cls, "__attrs_attrs__"):
        return {field.name: field.alias if field.init else "" for field in cls.__attrs_attrs__}
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return {name: name for name in cls._fields}
    return None


def _with_fields(value: dict[Any, Any], cls: Any, names: dict[str, str]) -> Any:
    unknown = next((name for name in value if name not in names), None)
    if unknown is not None:
        raise _NoFitError(f"{class_name(cls)} has no field {paths.field_step(unknown)[1:]}")
    hints = _hints(cls)
    parts = {
        name: _fit_part(part, hints.get(name, Any), paths.key_step(name)) for name, part in value.items()
    }
    arguments = {names[name]: part for name, part in parts.items() if names[name]}
    try:
        # A plain dict never was such an object: its own constructor makes it one, checks included.
        built = cls(**arguments)
    except Exception as error:
        # The class's own __init__ may raise anything.
        raise _NoFitError(f"{class_name(cls)}: {error}") from error
    for name, part in parts.items():
        if not names[name]:
            object.__setattr__(built, name, part)
    return built


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        # Names that exist only for type checkers: the parts are then taken as they come.
        return {}


def _expect(value: Any, cls: type) -> None:
    if type(value) is not cls:
        raise _NoFitError(f"it is {_kind(value)}, not {cls.__qualname__}")


def _kind(value: Any) -> str:
    if type(value) is Opaque:
        return f"a record of the type {value.name!r} (version {value.version}), which is not registered like that"
    return f"of type {class_name(type(value))}"


def _name(hint: Any) -> str:
    return class_name(hint) if isinstance(hint, type) else str(hint)
