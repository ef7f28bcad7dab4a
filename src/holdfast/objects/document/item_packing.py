"""One value of a document as bytes: the same as `encode_value` gives, mostly in one call into C.

In bulk, ormsgpack can be told to ask about every subclass or about none. Asking about every dict and list of a document
would take most of the time of a save, so it is told not to ask; what must be asked about is marked (`trust`) and goes
the exact way.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.document.containers import Tracked
from holdfast.objects.document.dirty import EXACT, PLAIN
from holdfast.objects.tree.bulk import checked

_OPTIONS: Final = msgpack.PACK_OPTIONS & ~ormsgpack.OPT_PASSTHROUGH_SUBCLASS


class ItemPacker:
    """Encodes the values of one document, one by one."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._failure: BaseException | None = None
        self._asked = False
        self.count = 0
        """How many values it has encoded."""

    def pack(self, value: Any, depth: int) -> bytes:
        """The encoded value, which lies in `depth` containers.

        Raises:
            InvalidInputError: It cannot be saved; the path in the message begins at the value.
        """
        self.count += 1
        if (value._marks & EXACT) if isinstance(value, Tracked) else type(value) not in PLAIN:
            return self._exactly(value, depth)
        packed = self._packed(value)
        return self._exactly(value, depth) if packed is None else packed

    def pack_several(self, values: list[Any] | dict[Any, Any]) -> bytes | None:
        """The encoded items of a plain list or dict, none of them marked, one after another.

        None where one of them is out of reach: one by one, it is found again, and dealt with.
        """
        self.count += len(values)
        header = msgpack.array_header if type(values) is list else msgpack.map_header
        packed = self._packed(values)
        return None if packed is None else packed[len(header(len(values))) :]

    def pack_each(self, values: Collection[Any]) -> list[bytes] | None:
        """The encoded values, none of them marked; None where one of them is out of reach, as above."""
        self.count += len(values)
        try:
            return [ormsgpack.packb(value, None, _OPTIONS) for value in values]
        except (TypeError, RecursionError, ValueError):
            return None

    def _packed(self, value: Any) -> bytes | None:
        self._asked = False
        try:
            packed = ormsgpack.packb(value, self._answer, _OPTIONS)
            return packed if not self._asked else checked(packed)
        except (TypeError, RecursionError, ValueError):
            # ormsgpack swallows what a callback raises; Ctrl-C and the like must not end here.
            failure, self._failure = self._failure, None
            if failure is not None and not isinstance(failure, Exception):
                raise failure from None
            return None

    def _exactly(self, value: Any, depth: int) -> bytes:
        # The depth of the whole state is limited: lists of one item, which take a byte each, stand for what is above.
        for _ in range(depth):
            value = [value]
        return encode_value(value, self._types)[depth:]

    def _answer(self, value: Any) -> ormsgpack.Fragment:
        self._asked = True
        try:
            return ormsgpack.Fragment(encode_value(value, self._types))
        except BaseException as error:
            self._failure = error
            raise
