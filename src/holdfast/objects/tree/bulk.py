"""Encoding the items of a large container: in bulk first, one by one where it is cut.

`packing` answers for every value that ormsgpack writes without asking, by looking at all of them. In a large state that
is mostly unchanged the look costs as much as the encoding, so here it is left to the caller, run by run: a run whose
bytes are those of a run that held no bytes at all holds no bytearray either.

Objects of registered classes are taken apart in Python, one by one, and that costs more than all the rest. Where a
class has a cheaper way to tell its objects apart (`Shape.glance`), `look` goes it: enough to find a run unchanged.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.packing import OutOfReachError, Packer
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.memo import Alike

_UNASKED: Final = frozenset((bytearray, memoryview, ormsgpack.Ext, ormsgpack.Fragment))
_LOOKED_INTO: Final = frozenset((list, dict))
_BUILT_IN: Final = _LOOKED_INTO | {str, int, float, bool, type(None), bytes}


class UnaskedError(Exception):
    """A value among the items was written as something that it is not."""


class BulkPacker:
    """Encodes values to the same bytes as `encode_value`, but for those that are written without asking."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._failure: BaseException | None = None
        self._asked = False
        """Whether a callback ran."""
        self._packer = Packer(types)
        self._glances: dict[type, Callable[[Any], Any] | None] = {}
        self.met_objects = False
        """Whether there was an object that `look` is faster with; for the caller to set back."""
        self.glanced: list[Any] = []
        """What the last `look` saw in place of such objects."""
        self.alike: Alike | None = None
        """What the last `look` left out of its bytes, because it is faster compared than written."""

    def pack(self, value: Any) -> bytes:
        """The encoded value.

        Raises:
            InvalidInputError: It cannot be saved.
        """
        self._asked = False
        try:
            packed = ormsgpack.packb(value, self._answer, msgpack.PACK_OPTIONS)
            return packed if not self._asked else checked(packed)
        except (TypeError, RecursionError, ValueError):
            # ormsgpack swallows what a callback raises; Ctrl-C and the like must not end here.
            if self._failure is not None and not isinstance(self._failure, Exception):
                raise self._failure from None
            self._failure = None
            return encode_value(value, self._types)

    def pack_each(self, values: Iterable[Any]) -> list[bytes] | None:
        """The encoded values, one by one; None where one of them has to be asked about, or cannot be saved."""
        try:
            return [ormsgpack.packb(value, None, msgpack.PACK_OPTIONS) for value in values]
        except (TypeError, RecursionError, ValueError):
            return None

    def look(self, values: list[Any]) -> bytes | None:
        """Bytes that, with `alike`, no list has which is encoded otherwise, in less time than it takes to encode it.

        None where there are none. As with `pack`, the caller answers for what is written without asking.
        """
        self.alike = self._alike(values)
        if self.alike is None:
            return self._look(values)
        seen = self.alike.together.seen(values)
        return self._look(seen, seen)

    def look_again(self, values: list[Any], alike: Alike | None) -> bytes | None:
        """What `look` gives for a list that was seen with these objects; None where they are others."""
        if alike is None:
            return self._look(values)
        if list(map(type, values)) != alike.classes or alike.together.marks(values) != alike.marks:
            return None
        seen = alike.together.seen(values)
        return self._look(seen, seen)

    def _alike(self, values: list[Any]) -> Alike | None:
        """What these objects have in common, where all of their classes are looked at in the same way."""
        classes = list(map(type, values))
        entries = [self._types.by_class(cls) for cls in set(classes)]
        ways = {getattr(entry.shape, "together", None) if entry else None for entry in entries}
        together = ways.pop() if len(ways) == 1 else None
        if together is None:
            return None
        return Alike(together, classes, together.remembered(together.marks(values)))

    def _look(self, value: Any, *glanced: Any) -> bytes | None:
        self.glanced = [*glanced]
        try:
            return ormsgpack.packb(value, self._glance, msgpack.PACK_OPTIONS)
        except (TypeError, RecursionError, ValueError):
            # The same as above; what is wrong with the value will be found when it is encoded.
            failure, self._failure = self._failure, None
            if failure is not None and not isinstance(failure, Exception):
                raise failure from None
            return None

    def _answer(self, value: Any) -> ormsgpack.Fragment:
        self._asked = True
        try:
            if self.glance_of(type(value)) is not None:
                self.met_objects = True
            return ormsgpack.Fragment(self._encoded(value))
        except BaseException as error:
            self._failure = error
            raise

    def _glance(self, value: Any) -> Any:
        try:
            glance = self.glance_of(type(value))
            if glance is None:
                return ormsgpack.Fragment(self._encoded(value))
            seen = glance(value)
            self.glanced.append(seen)
        except BaseException as error:
            self._failure = error
            raise
        return seen

    def glance_of(self, cls: type) -> Callable[[Any], Any] | None:
        """What tells the objects of a class apart without taking them apart, where it has such a function."""
        try:
            return self._glances[cls]
        except KeyError:
            entry = self._types.by_class(cls)
            if entry is None:
                # Until it is met, perhaps: `TypeRegistry.on_unknown`.
                return None
            self._glances[cls] = entry.glance
            return entry.glance

    def _encoded(self, value: Any) -> bytes:
        try:
            return self._packer.pack(value)
        except BaseException as error:
            # One that gave up, or was interrupted, is not used again.
            self._packer = Packer(self._types)
            if not isinstance(error, OutOfReachError):
                raise
        return encode_value(value, self._types)


def checked(packed: bytes) -> bytes:
    """The bytes of a value for which callbacks ran.

    While one runs, it may change a dict that is being written, or another thread may: the header of the dict would then
    belie its pairs.

    Raises:
        ValueError: They are not the bytes of one value.
    """
    # This looks at the structure and builds nothing.
    ormsgpack.Fragment(packed)
    return packed


def has_binary(items: list[Any], encoded: bytes) -> bool:
    """Whether there are bytes among the values of these items.

    Raises:
        UnaskedError: There is a bytearray or the like, which was written as bytes.
    """
    # The marks of binary data; where none of them occurs, nothing of the kind was written. They occur by chance too.
    if not (b"\xc4" in encoded or b"\xc5" in encoded or b"\xc6" in encoded):
        return False
    found = False
    level: list[Any] = items
    while level:
        kinds = set(map(type, level))
        if not _UNASKED.isdisjoint(kinds):
            raise UnaskedError
        found = found or bytes in kinds
        if _LOOKED_INTO.isdisjoint(kinds):
            break
        if not kinds <= _BUILT_IN:
            level = [each for each in level if type(each) in _LOOKED_INTO]
        # All that they hold, in one call; a text or a number holds nothing. Keys are text here: any other would have
        # been asked about.
        level = gc.get_referents(*level)
    return found
