"""A value as bytes: canonical MessagePack. Equal values give equal bytes, so equal hashes mean equal states.

One call into C encodes a whole value: ormsgpack walks lists and dicts itself and calls back for everything else. It
gives up where a value is out of its reach (a key that is no text, half a surrogate pair, objects in objects in objects)
and where a callback raises. Then the value is walked in Python, which finds the same bytes or the exact reason.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from datetime import UTC
from typing import Any, Final

import ormsgpack

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec import builtin_types, msgpack, paths
from holdfast.objects.codec.builtin_types import EncodedAsPlain, encoded_type, plain_shell
from holdfast.objects.codec.classes import StandInShape, class_name
from holdfast.objects.codec.errors import RefusedError
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import RegisteredType, TypeRegistry, can_register

INSTEAD: Final = -1
"""In place of a code: the payload is another value, to be written as if it stood there."""

_SORTED: Final = frozenset((msgpack.SET, msgpack.FROZENSET))
"""The codes whose items are written in the order of their encoded bytes."""

_EXACT: Final = msgpack.PACK_OPTIONS
_TRACKED: Final = _EXACT & ~ormsgpack.OPT_PASSTHROUGH_SUBCLASS
"""Writes the containers of a document like those that they equal, without asking about each."""

_WRITTEN_UNASKED: Final = frozenset((bytearray, memoryview, ormsgpack.Ext, ormsgpack.Fragment))
"""ormsgpack writes these as what they are not, without asking."""
_LOOKED_INTO: Final = frozenset((list, dict))
_BUILT_IN: Final = _LOOKED_INTO | {str, int, float, bool, type(None), bytes}

_FAILURES: Final = (TypeError, ValueError, RecursionError)
_UTC: Final = ormsgpack.Ext(msgpack.TIMEZONE, b"\x91\x00")

# What a dict is for the path to its values: one of its own, the fields of an object, or what is stored beside those.
_VALUE: Final = 0
_FIELDS: Final = 1
_BESIDE: Final = 2

# Code -> the number of its first key; values follow their keys.
_PAIRED: Final = {msgpack.PAIRS: 0, msgpack.ORDEREDDICT: 0, msgpack.COUNTER: 0, msgpack.DEFAULTDICT: 1}
_NAMED: Final = {
    (msgpack.DATETIME, 8): ".tzinfo",
    (msgpack.TIME, 5): ".tzinfo",
    (msgpack.SLICE, 0): ".start",
    (msgpack.SLICE, 1): ".stop",
    (msgpack.SLICE, 2): ".step",
}


class UnaskedError(Exception):
    """A value was written as something that it is not: a bytearray as bytes, say."""


def encode_value(value: Any, types: TypeRegistry) -> bytes:
    """The encoded value.

    Raises:
        InvalidInputError: It cannot be saved; the message has the path of what is in the way.
    """
    return Encoder(types).exactly(value)


class Encoder:
    """Encodes values. A failure leaves it as it was."""

    __slots__ = ("_asked", "_calls", "_failure", "_types")

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._failure: BaseException | None = None
        """What ended an attempt: ormsgpack swallows what a callback raises, Ctrl-C included."""
        self._calls = 0
        self._asked = False

    def exactly(self, value: Any) -> bytes:
        """The encoded value.

        Raises:
            InvalidInputError: It cannot be saved; the message has the path of what is in the way.
        """
        packed = self.unasked(value)
        return packed if _is_asked(value, packed) else self._walked(value)

    def unasked(self, value: Any) -> bytes:
        """The same, but for what is written without asking: the caller answers for that, see `holds_binary`."""
        self._asked = False
        try:
            packed = ormsgpack.packb(value, self._answer, _EXACT)
            # While a callback runs, another thread may change a dict that is being written: its header would then belie
            # its pairs. This checks the structure without building anything.
            if self._asked:
                ormsgpack.Fragment(packed)
        except _FAILURES:
            self._raise_interrupt()
            return self._walked(value)
        return packed

    def at_once(self, value: Any, *, tracked: bool = False, inside: int = 0) -> bytes | None:
        """The same in one call; None where it is out of reach, or wrong in some way.

        Args:
            value: What to encode.
            tracked: Write the containers of a document as what they equal; none may be marked `EXACT`.
            inside: In how many extensions it lies.
        """
        self._asked, self._calls = False, inside
        try:
            packed = ormsgpack.packb(value, self._answer, _TRACKED if tracked else _EXACT)
            if self._asked:
                ormsgpack.Fragment(packed)
        except _FAILURES:
            self._raise_interrupt()
            return None
        self._calls = 0
        return packed

    def _raise_interrupt(self) -> None:
        failure, self._failure, self._calls = self._failure, None, 0
        if failure is not None and not isinstance(failure, Exception):
            raise failure from None

    @staticmethod
    def each(values: Iterable[Any], *, tracked: bool = False) -> list[bytes] | None:
        """The encoded values, one by one; None where one of them has to be asked about, or cannot be saved."""
        options = _TRACKED if tracked else _EXACT
        try:
            return [ormsgpack.packb(value, None, options) for value in values]
        except _FAILURES:
            return None

    def _answer(self, value: Any) -> ormsgpack.Ext | ormsgpack.Fragment:
        """What ormsgpack is to write for a value that it has no type for."""
        try:
            self._asked = True
            if value is UTC:
                # In nearly every date there is.
                return _UTC
            if isinstance(value, EncodedAsPlain):
                return ormsgpack.Fragment(self._inner(plain_shell(value)))
            code, payload = take_apart(value, self._types)
            if code == INSTEAD:
                return ormsgpack.Fragment(self._inner(payload))
            if type(payload) is bytes:
                return ormsgpack.Ext(code, payload)
            if code in _SORTED:
                return ormsgpack.Ext(code, msgpack.array(sorted(map(self._inner, payload))))
            return ormsgpack.Ext(code, self._inner(payload))
        except BaseException as error:
            # The first is the cause of the others.
            self._failure = self._failure or error
            raise

    def _inner(self, value: Any) -> bytes:
        """What an object consists of, encoded on its own."""
        if self._calls >= msgpack.FREE_LEVELS:
            raise RecursionError
        self._calls += 1
        packed = ormsgpack.packb(value, self._answer, _EXACT)
        ormsgpack.Fragment(packed)
        holds_binary([value], packed)
        self._calls -= 1
        return packed

    def _walked(self, value: Any) -> bytes:
        try:
            return _Walk(self, self._types).value(value, 0)
        except _PathError as error:
            raise error.made() from error.__cause__
        except RecursionError as error:
            # The program has not even the few frames left that a value of the greatest depth takes, or an encode
            # function of its own never ends.
            raise InvalidInputError(
                "the state could not be encoded: the program ran out of stack",
                code=ErrorCode.VALUE_TOO_DEEP,
                hint="save from a place that is not so deep in calls, or raise sys.setrecursionlimit()",
            ) from error


def holds_binary(values: list[Any], encoded: bytes) -> bool:
    """Whether there are bytes among these values and what lists and dicts among them hold, level by level, in C.

    Whatever else a value holds went through a callback, and had a look of its own.

    Raises:
        UnaskedError: There is a bytearray or the like, which was written as bytes.
    """
    # The marks of binary data; where none of them occurs, nothing of the kind was written.
    if not (b"\xc4" in encoded or b"\xc5" in encoded or b"\xc6" in encoded):
        return False
    found = False
    level: list[Any] = values
    while level:
        kinds = set(map(type, level))
        if not _WRITTEN_UNASKED.isdisjoint(kinds):
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


def _is_asked(value: Any, encoded: bytes) -> bool:
    try:
        holds_binary([value], encoded)
    except UnaskedError:
        return False
    return True


def _fits(encoded: bytes, level: int) -> bool:
    """Whether an encoded value is not too deep for its place."""
    try:
        # It checks the structure to a depth of 253, and builds nothing.
        ormsgpack.Fragment(b"\x91" * level + encoded)
    except ValueError:
        return False
    return True


class _PathError(Exception):
    """A value that cannot be saved, on its way up: each level puts its step in front."""

    def __init__(self, message: str, code: ErrorCode, hint: str, step: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.steps = [step] if step else []
        self.again: int | None = None
        """Of a cycle: the id of the value that contains itself, until its own place is reached."""
        self.inside = 0
        """Of a cycle: how many steps lie below that place."""

    def made(self) -> InvalidInputError:
        steps = self.steps[::-1]
        where = paths.render(steps)
        message = str(self)
        if self.code is ErrorCode.VALUE_CYCLE:
            message = f"{message} (it is {paths.render(steps[: len(steps) - self.inside])})"
        return InvalidInputError(f"{where}: {message}", code=self.code, hint=self.hint, path=where)


_Item = tuple[str, Any, int]
"""The step that leads to a value, the value, and its role."""

# In place of the code of an extension.
_DONE: Final = -1
_LIST: Final = -2
_MAP: Final = -3

_FLATTEN: Final = "keep the parts in one flat list or dict, and refer to them by id"


class _Opened:
    """A value taken apart."""

    __slots__ = ("before", "code", "items")

    def __init__(self, code: int, items: list[_Item], before: list[bytes] | None = None) -> None:
        self.code = code
        self.items = items
        self.before = [] if before is None else before
        """What is encoded already, and comes first."""


class _Walk:
    """Encodes one value in Python: keys that are no text, half surrogate pairs, objects deep in objects, and errors."""

    def __init__(self, encoder: Encoder, types: TypeRegistry) -> None:
        self._encoder = encoder
        self._types = types
        self._active: set[int] = set()
        self._inside = 0
        """In how many extensions the present value lies."""
        self._held = self._levels = 0
        """What decoding the extensions in each other that were written last takes: bytes, and levels of the stack."""

    def value(self, value: Any, level: int, role: int = _VALUE) -> bytes:
        """The encoded value, which lies in so many containers.

        Raises:
            _PathError: It cannot be saved.
        """
        if level:
            # Often enough that one odd key does not make a large state slow, seldom enough that nothing is encoded over
            # and over.
            packed = self._natively(value) if level & (level + 1) else self._at_once(value)
            if packed is not None and _is_asked(value, packed) and _fits(packed, level):
                return packed
        self._check_place(value, level)
        self._active.add(id(value))
        before = self._held, self._levels
        self._held = self._levels = 0
        inside = self._inside
        try:
            opened = self._open(value, role)
            self._inside += opened.code >= 0
            parts = opened.before
            # No function between one level and the next: the stack is to last for all of them.
            for step, item, inner in opened.items:
                try:
                    parts.append(self.value(item, level + 1, inner))
                except _PathError as error:
                    if step:
                        error.steps.append(step)
                    raise
            return self._closed(opened.code, parts, before)
        except RefusedError as refusal:
            raise _PathError(str(refusal), refusal.code, refusal.hint, refusal.step) from refusal.__cause__
        except _PathError as error:
            if error.again == id(value):
                error.again, error.inside = None, len(error.steps)
            raise
        finally:
            self._inside = inside
            self._active.discard(id(value))

    def _at_once(self, value: Any) -> bytes | None:
        return self._encoder.at_once(value, inside=self._inside)

    def _natively(self, value: Any) -> bytes | None:
        packed = self._encoder.each([value])
        return None if packed is None else packed[0]

    def _check_place(self, value: Any, level: int) -> None:
        if level >= msgpack.MAX_DEPTH:
            raise _PathError(
                f"more than {msgpack.MAX_DEPTH} containers lie in each other",
                ErrorCode.VALUE_TOO_DEEP,
                _FLATTEN,
            )
        if id(value) in self._active:
            cycle = _PathError(
                f"this {type(value).__qualname__} contains itself",
                ErrorCode.VALUE_CYCLE,
                "break the cycle before saving: keep an id of the other object instead of the object",
            )
            cycle.again = id(value)
            raise cycle

    def _open(self, value: Any, role: int) -> _Opened:
        kind = encoded_type(value)
        if kind is str:
            return _Opened(
                _DONE, [], [msgpack.extension(msgpack.SURROGATES, builtin_types.surrogate_bytes(value))]
            )
        if kind is list:
            return _Opened(
                _LIST, [(paths.index_step(at), item, _VALUE) for at, item in enumerate(list(value))]
            )
        if kind is dict:
            flat = builtin_types.pair_items(value)
            if not all(type(key) is str and _is_clean(key) for key in flat[::2]):
                return _Opened(msgpack.PAIRS, _steps(msgpack.PAIRS, flat))
            items: list[_Item] = []
            step = paths.field_step if role == _FIELDS else paths.key_step
            for key, item in zip(flat[::2], flat[1::2], strict=True):
                # The key itself is a value that nothing is wrong with.
                items.append(("", key, _VALUE))
                items.append(("", item, _FIELDS) if role == _BESIDE else (step(key), item, _VALUE))
            return _Opened(_MAP, items)
        return self._open_extension(value)

    def _open_extension(self, value: Any) -> _Opened:
        try:
            code, payload = take_apart(value, self._types)
        except (RefusedError, InvalidInputError, RecursionError):
            raise
        except Exception as error:
            # The application's own encode function or property may raise anything.
            raise _PathError(
                f"taking this {type(value).__qualname__} apart failed: {type(error).__name__}: {error}",
                ErrorCode.VALUE_UNSUPPORTED,
                "look at the cause; it was raised by the encode= function or a property of the class",
            ) from error
        if code == INSTEAD:
            return _Opened(_DONE, [("", payload, _VALUE)])
        if type(payload) is bytes:
            return _Opened(_DONE, [], [msgpack.extension(code, payload)])
        if code == msgpack.RECORD:
            name, version, data, extra = payload
            before = [ormsgpack.packb(name), ormsgpack.packb(version)]
            return _Opened(code, [("", data, _FIELDS), ("", extra, _BESIDE)], before)
        return _Opened(code, _steps(code, payload))

    def _closed(self, code: int, parts: list[bytes], before: tuple[int, int]) -> bytes:
        """A container of that code with these items; `before` is what those next to it take."""
        if code == _DONE:
            packed = parts[0]
        elif code == _MAP:
            packed = msgpack.map_header(len(parts) // 2) + b"".join(parts)
        else:
            packed = msgpack.array(sorted(parts) if code in _SORTED else parts)
        if code >= 0:
            self._measure(packed)
            packed = msgpack.extension(code, packed)
        self._held, self._levels = max(before[0], self._held), max(before[1], self._levels)
        return packed

    def _measure(self, payload: bytes) -> None:
        """Refuse an extension that could not be decoded again: too much in too many of them."""
        self._held += len(payload)
        if self._inside > msgpack.FREE_LEVELS:
            self._levels += _depth_of(payload)
        if self._held > msgpack.held_limit(len(payload), 16) or self._levels > msgpack.MOST_LEVELS:
            raise _PathError(
                f"{self._held:,} bytes in objects, tuples or sets that lie in each other",
                ErrorCode.VALUE_TOO_DEEP,
                _FLATTEN,
            )


def _steps(code: int, items: list[Any]) -> list[_Item]:
    """The items of an extension, with the steps of a path to them."""
    return [(step, item, _VALUE) for step, item in zip(_names(code, items), items, strict=True)]


def _names(code: int, items: list[Any]) -> list[str]:
    if code in (msgpack.TUPLE, msgpack.DEQUE):
        first = 1 if code == msgpack.DEQUE else 0
        return [paths.index_step(at - first) for at in range(len(items))]
    if code in _SORTED:
        return [paths.MEMBER] * len(items)
    if code in _PAIRED:
        steps = [""] * _PAIRED[code]
        for key in items[len(steps) :: 2]:
            steps += (paths.into_key_step(key), paths.key_step(key))
        return steps
    return [_NAMED.get((code, at), "") for at in range(len(items))]


def _depth_of(payload: bytes) -> int:
    try:
        return msgpack.depth_of(payload)
    except ValueError:
        return msgpack.MOST_LEVELS + 1


def _is_clean(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# OrderedDict and the like go before dict: the most precise name is the best hint.
_EXACT_ONLY: Final = (
    str,
    bytes,
    float,
    list,
    *reversed(builtin_types.TO_ITEMS),
    *builtin_types.TO_BYTES,
    dict,
)


def take_apart(value: Any, types: TypeRegistry) -> tuple[int, Any]:
    """The code and payload of a value: bytes, or a list of items; any value where the code is `INSTEAD`.

    Raises:
        RefusedError: The value cannot be saved.
    """
    cls = type(value)
    scalar = builtin_types.TO_BYTES.get(cls)
    if scalar is not None:
        return scalar[0], scalar[1](value)
    several = builtin_types.TO_ITEMS.get(cls)
    if several is not None:
        return several[0], several[1](value)
    if cls is Opaque:
        return msgpack.RECORD, _opaque_items(value)
    entry = types.by_class(cls)
    if entry is not None:
        return _object(value, entry)
    return _take_late(value, cls, types)


def _object(value: Any, entry: RegisteredType) -> tuple[int, Any]:
    data, extra = entry.shape.take(value)
    if type(entry.shape) is StandInShape:
        return INSTEAD, data
    return msgpack.RECORD, [entry.name, entry.version, data, extra]


def _take_late(value: Any, cls: type, types: TypeRegistry) -> tuple[int, Any]:
    """The code and payload of a value whose class is not registered: of a library that few import, or to ask about."""
    scalar = builtin_types.late_taker(cls)
    if scalar is not None:
        return scalar[0], scalar[1](value)
    if cls is getattr(sys.modules.get("fractions"), "Fraction", None):
        return msgpack.FRACTION, builtin_types.fraction_items(value)
    # Last of all: about what can be kept, nobody is asked.
    entry = types.asked(cls)
    if entry is None:
        raise _refused(value, cls)
    return _object(value, entry)


def _opaque_items(value: Opaque) -> list[Any]:
    if type(value.name) is not str or type(value.version) is not int:
        raise RefusedError(
            "an Opaque whose name is no text, or whose version is no whole number",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="save it as it was loaded",
        )
    return [value.name, value.version, value.data, value.extra]


def _refused(value: Any, cls: type) -> RefusedError:
    name = class_name(cls)
    if cls is memoryview:
        return RefusedError(
            "a memoryview is a window onto bytes held elsewhere",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="save bytes(view)",
        )
    if can_register(cls):
        return RefusedError(
            f"class {name} is not registered",
            code=ErrorCode.TYPE_NOT_REGISTERED,
            hint=f"holdfast.open(types=[{name}]), or put @holdfast.register above the class",
        )
    if isinstance(value, _EXACT_ONLY):
        base = next(base for base in _EXACT_ONLY if isinstance(value, base))
        return RefusedError(
            f"{name}, a kind of {base.__name__}, is not registered",
            code=ErrorCode.TYPE_NOT_REGISTERED,
            hint=f"holdfast.register({name}, encode=..., decode=...), or save {base.__name__}(value)",
        )
    return RefusedError(
        f"a value of type {name} cannot be saved",
        code=ErrorCode.VALUE_UNSUPPORTED,
        hint=f"keep what is needed to make it again, or holdfast.register({name}, encode=..., decode=...)",
    )
