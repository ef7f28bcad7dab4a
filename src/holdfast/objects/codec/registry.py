"""The classes whose objects can be saved, and the names they are stored under.

Stored bytes name a type by a word, never by a place to import it from. Only a class that the program itself has put
into a registry can come back; a word that nobody registered comes back as `Opaque`. `GLOBAL` is filled by
`@holdfast.register`; each store lays a `child` of its own over it for `types=[...]`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar, overload

from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError
from holdfast.objects.codec import builtin_types
from holdfast.objects.codec.classes import (
    CustomShape,
    EnumShape,
    FieldShape,
    NamedTupleShape,
    Shape,
    StandInShape,
    attrs_defaults,
    class_name,
    dataclass_defaults,
    has_plain_layout,
)
from holdfast.objects.codec.errors import RefusedError
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.pydantic_models import ModelShape, is_model

C = TypeVar("C", bound=type)

Upgrade = Callable[[Any, int], Any]
"""Brings stored data of an older version into the shape of the newest: (data, stored version) -> data."""

Take = Callable[[type], bool]
"""Asked about a class that nobody registered: registers it and says True, or says False."""

Find = Callable[[str], bool]
"""Told of a stored name that nobody registered: registers a class under it and says True, or says False."""


class RegisteredType:
    """A class, the name and version its objects are stored under, and how they come apart."""

    # Not a dataclass: every program that loads a state pays for making one.
    __slots__ = ("cls", "name", "shape", "upgrade", "version")

    def __init__(self, cls: type, name: str, version: int, upgrade: Upgrade | None, shape: Shape) -> None:
        self.cls = cls
        self.name = name
        self.version = version
        self.upgrade = upgrade
        self.shape = shape


class TypeRegistry:
    """Classes by name and names by class. A child sees what its parent has, also what is added to it later."""

    def __init__(self, parent: TypeRegistry | None = None) -> None:
        self._parent = parent
        self._by_name: dict[str, RegisteredType] = {}
        self._by_class: dict[type, RegisteredType] = {}
        self._yielding: dict[type, RegisteredType] = {}
        """Classes that nobody registered but that were met: what the parent learns of them goes before."""
        self._aliases: dict[str, type] = {}
        """Names that stand for a class as long as they are no other's."""
        self._lock = threading.Lock()
        self._take: Take | None = None
        self._find: Find | None = None
        self._denied: set[type] = set()
        """Classes that were asked about for the state that is being encoded, without success."""

    def register(
        self,
        cls: type,
        *,
        name: str | None = None,
        version: int = 1,
        upgrade: Upgrade | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        shape: Shape | None = None,
    ) -> None:
        """Make the objects of a class savable.

        Args:
            cls: A dataclass, attrs class, pydantic model, enum or named tuple; any class with encode and decode.
            name: What its objects are stored under; the name of the class by default.
            version: Raise it when the stored data of the class changes shape.
            upgrade: Brings data of an older version into the present shape.
            encode: Gives the data to store of an object, made of values that can be saved.
            decode: Gives the object for that data.
            shape: Does both, in place of encode and decode, and keeps more than data.

        Raises:
            InvalidInputError: The class cannot be registered like this (`bad-argument`), or the name belongs to another
                class (`type-name-taken`).
        """
        _check_arguments(cls, name, version)
        shape = _shape_of(cls, encode, decode) if shape is None else shape
        entry = RegisteredType(cls, name or class_name(cls), version, upgrade, shape)
        with self._lock:
            _check_free(self._named(entry.name), entry)
            # A class that this one replaces stays known: its instances in a notebook can still be saved.
            self._by_name[entry.name] = entry
            self._by_class[cls] = entry

    def replace(self, cls: type, stand_in: Callable[[Any], Any]) -> None:
        """Store in place of the objects of a class what this function makes of each; that is what comes back.

        For objects that nothing can be made of again, such as an exception: its text is stored, and no name.
        """
        _check_arguments(cls, None, 1)
        with self._lock:
            self._by_class[cls] = RegisteredType(cls, "", 1, None, StandInShape(stand_in))

    def by_class(self, cls: type) -> RegisteredType | None:
        """What is registered for exactly this class."""
        entry = self._by_class.get(cls)
        if entry is None and self._parent is not None:
            entry = self._parent.by_class(cls)
            if entry is not None:
                # The parent may have learned the name only after this child took it for a class of its own.
                _check_free(self._by_name.get(entry.name), entry)
        return self._yielding.get(cls) if entry is None and self._yielding else entry

    def give_way(self, cls: type) -> None:
        """From now on, let what the parent has for this class go before what is registered here.

        For a class that was registered only because it was met: once the program registers it, that counts.
        """
        with self._lock:
            entry = self._by_class.get(cls)
            if entry is not None:
                # In this order, for those who look it up meanwhile.
                self._yielding[cls] = entry
                del self._by_class[cls]

    def on_unknown(self, take: Take | None) -> None:
        """From now on, ask this function about classes that are not registered; None asks nobody."""
        self._take = take
        self._denied.clear()

    def on_missing(self, find: Find | None) -> None:
        """From now on, tell this function of stored names that are not registered, before they become `Opaque`."""
        self._find = find

    @property
    def finder(self) -> Find | None:
        """What `on_missing` was given."""
        return self._find

    def adopt(self, name: str, cls: type | None = None) -> bool:
        """Know a class that is registered under another name by this one too, as long as no class has it for its own.

        Args:
            name: The other name.
            cls: The class; without it, one that has this name with its module in front. Nothing is looked for in
                modules.

        Returns:
            Whether there is such a class.
        """
        if cls is None:
            cls = next((each for each in self._classes() if full_name(each) == name), None)
        entry = None if cls is None else self.by_class(cls)
        if cls is None or entry is None or not entry.name:
            return False
        self._aliases[name] = cls
        return True

    def _classes(self) -> list[type]:
        """All that come back under a name."""
        known = [*self._by_class.values(), *self._yielding.values()]
        return [entry.cls for entry in known if entry.name] + (
            [] if self._parent is None else self._parent._classes()  # noqa: SLF001 - its own class
        )

    def found(self, name: str) -> RegisteredType | None:
        """What is registered under a name of which `by_name` knows nothing, once it was asked about."""
        find = self._find
        return self.by_name(name) if find is not None and find(name) else None

    def begin(self) -> None:
        """A state is about to be encoded: for it, each class may be asked about again."""
        # The ways to encode try one after the other, and all of them come across the same class. Another thread that
        # begins meanwhile costs one more question, and nothing else.
        if self._denied:
            self._denied.clear()

    def asked(self, cls: type) -> RegisteredType | None:
        """What is registered for a class of which `by_class` knows nothing, once it was asked about.

        Raises:
            RefusedError: The function that was asked raised something.
        """
        take = self._take
        if take is None or cls in self._denied:
            return None
        try:
            # No lock is held: it registers classes, and may wait for another thread that does.
            entry = self.by_class(cls) if take(cls) else None
        except (HoldfastError, RecursionError):
            raise
        except Exception as error:
            # The application's own function may raise anything.
            raise RefusedError(
                f"asking about class {class_name(cls)} failed: {type(error).__name__}: {error}",
                code=ErrorCode.TYPE_NOT_REGISTERED,
                hint="look at the cause; it was raised by the function that store.on_unknown() was given",
            ) from error
        if entry is None:
            self._denied.add(cls)
        return entry

    def by_name(self, name: str) -> RegisteredType | None:
        """What is registered under this name."""
        # Asked for every object that is loaded: most are found at once.
        entry = self._by_name.get(name) or self._named(name)
        if entry is None and name in self._aliases:
            entry = self.by_class(self._aliases[name])
        return entry

    def _named(self, name: str) -> RegisteredType | None:
        entry = self._by_name.get(name)
        return self._parent.by_name(name) if entry is None and self._parent is not None else entry

    def child(self, types: Iterable[type] = ()) -> TypeRegistry:
        """A registry laid over this one, with these classes added under their own names."""
        over = TypeRegistry(self)
        for cls in types:
            if over.by_class(cls) is None:
                over.register(cls)
        return over


def full_name(cls: type) -> str:
    """The name of a class with its module in front."""
    return f"{cls.__module__}.{cls.__qualname__}"


def can_register(cls: type) -> bool:
    """Whether this class can be registered without functions of its own."""
    return _own_shape(cls) is not None


def _shape_of(cls: type, encode: Callable[[Any], Any] | None, decode: Callable[[Any], Any] | None) -> Shape:
    if encode is not None and decode is not None:
        return CustomShape(encode, decode)
    if encode is not None or decode is not None:
        raise InvalidInputError(
            f"class {class_name(cls)} was given only one of encode= and decode=",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass both: what encode makes of an object, decode turns back into it",
        )
    shape = _own_shape(cls)
    if shape is None:
        raise InvalidInputError(
            f"class {class_name(cls)} is no dataclass, attrs class, pydantic model, enum or named tuple",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass encode= and decode= to register(); on a dataclass, put @holdfast.register above @dataclass",
        )
    return shape


def _own_shape(cls: type[Any]) -> Shape | None:
    shape: Shape | None = None
    if issubclass(cls, Enum):
        shape = EnumShape(cls)
    elif issubclass(cls, tuple) and hasattr(cls, "_field_defaults") and hasattr(cls, "_fields"):
        shape = NamedTupleShape(cls)
    elif not has_plain_layout(cls):
        # A dataclass that is a list, say: its items would be lost.
        shape = None
    elif dataclasses.is_dataclass(cls):
        shape = FieldShape(cls, dataclass_defaults(cls))
    elif hasattr(cls, "__attrs_attrs__"):
        shape = FieldShape(cls, attrs_defaults(cls))
    elif is_model(cls):
        shape = ModelShape(cls)
    return shape


def _check_arguments(cls: type, name: str | None, version: int) -> None:
    if not isinstance(cls, type):
        raise InvalidInputError(
            f"only a class can be registered, not a {type(cls).__qualname__}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass the class itself, as in holdfast.open(types=[Plan])",
        )
    if cls in _KEPT_AS_THEY_ARE or builtin_types.late_taker(cls) is not None:
        raise InvalidInputError(
            f"{class_name(cls)} is saved as it is, and cannot be registered",
            code=ErrorCode.BAD_ARGUMENT,
            hint="leave it out; register only classes of your own",
        )
    if type(version) is not int or version < 1 or version >= 1 << 63:
        raise InvalidInputError(
            f"version={version!r} of class {class_name(cls)} is no whole number from 1",
            code=ErrorCode.BAD_ARGUMENT,
            hint="count versions 1, 2, 3 ...",
        )
    if name is not None and (type(name) is not str or not name):
        raise InvalidInputError(
            f"name={name!r} of class {class_name(cls)} is no text",
            code=ErrorCode.BAD_ARGUMENT,
            hint="leave name= out to use the name of the class",
        )


_KEPT_AS_THEY_ARE = {
    *builtin_types.TO_BYTES,
    *builtin_types.TO_ITEMS,
    str,
    bytes,
    float,
    bool,
    type(None),
    list,
    dict,
    Opaque,
}


def _check_free(taken: RegisteredType | None, entry: RegisteredType) -> None:
    """A name belongs to one class; the same class defined again (a module reload, a notebook cell) replaces it."""
    if taken is None or taken.cls is entry.cls:
        return
    if full_name(taken.cls) == full_name(entry.cls):
        return
    raise InvalidInputError(
        f"the name {entry.name!r} of class {full_name(entry.cls)} already belongs to {full_name(taken.cls)}",
        code=ErrorCode.TYPE_NAME_TAKEN,
        hint="register one of them under another name: @holdfast.register(name=...)",
        name=entry.name,
    )


GLOBAL = TypeRegistry()
"""What `@holdfast.register` fills; every store sees it."""


@overload
def register(cls: C, /) -> C: ...
@overload
def register(
    cls: C,
    /,
    *,
    name: str | None = None,
    version: int = 1,
    upgrade: Upgrade | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> C: ...
@overload
def register(
    *,
    name: str | None = None,
    version: int = 1,
    upgrade: Upgrade | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[C], C]: ...
def register(cls: Any = None, /, **options: Any) -> Any:
    """Make the objects of a class savable in every store: `@holdfast.register`, with or without arguments.

    A class that is not yours is registered by a call: `holdfast.register(Tree, encode=..., decode=...)`. A field that
    is added with a default needs nothing; any other change of the fields needs a new `version` and an `upgrade`.

    Args:
        cls: A dataclass, attrs class, pydantic model, enum or named tuple; any class with encode and decode.
        options: `name`: what its objects are stored under, the name of the class without its module by default; a
            class that gets another name is not found under the old one, and its objects come back as `Opaque`.
            `version`: 1 by default; raise it when the stored data changes shape. `upgrade`: a function (data, stored
            version) -> data that brings older data into the present shape. `encode`: a function that gives the data
            to store of an object, made of values that can be saved. `decode`: one that gives the object for it.

    Raises:
        InvalidInputError: The class cannot be registered like this, or the name belongs to another class.
    """
    if cls is None:
        return lambda decorated: register(decorated, **options)
    GLOBAL.register(cls, **options)
    return cls
