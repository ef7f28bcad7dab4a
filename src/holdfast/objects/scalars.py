"""Values that become fixed bytes, and back: big ints, dates of no zone, decimals, paths and the like.

`TAKE` has one function a type, which gives the payload; `MAKE` has one function a code, which gives the value back.
Modules that cost time to import are not imported here: `late_taker` recognises their classes once the program itself
has imported them, and a maker imports what it needs when such a value is met.
"""

from __future__ import annotations

import pathlib
import struct
import sys
from collections.abc import Callable
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ErrorCode
from holdfast.objects import wire
from holdfast.objects.refusal import MalformedError, RefusedError

if TYPE_CHECKING:
    import uuid
    import zoneinfo

_COMPLEX: Final = struct.Struct(">dd")


def big_int_bytes(value: int) -> bytes:
    """Two's complement, big-endian, as short as it can be."""
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _complex_bytes(value: complex) -> bytes:
    return _COMPLEX.pack(value.real, value.imag)


def surrogate_bytes(value: str) -> bytes:
    """UTF-8 in which each lone surrogate takes three bytes of its own."""
    return value.encode("utf-8", "surrogatepass")


def _decimal_bytes(value: Any) -> bytes:
    return str(value).encode("ascii")


def _uuid_bytes(value: uuid.UUID) -> bytes:
    safety = value.is_safe.value
    # Most say nothing about how they were made.
    return value.bytes if safety is None else value.bytes + safety.to_bytes(1, "big", signed=True)


# zoneinfo looks keys up as files and as modules of the tzdata package: nothing but a plain name may get there.
_ZONE_KEY: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/"
_ZONE_KEY_LIMIT: Final = 255


def _is_zone_key(key: bytes) -> bool:
    return len(key) <= _ZONE_KEY_LIMIT and not key.translate(None, _ZONE_KEY) and all(key.split(b"/"))


def _zone_bytes(value: zoneinfo.ZoneInfo) -> bytes:
    key = (value.key or "").encode("utf-8", "surrogatepass")
    if not _is_zone_key(key):
        raise RefusedError(
            "this ZoneInfo was made from a file, or has a key that is no zone name, and cannot be saved",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint='use ZoneInfo("Area/City"), or keep the offset as a datetime.timezone',
        )
    return key


_PATHS: Final[dict[type, int]] = {
    pathlib.PurePosixPath: 0,
    pathlib.PureWindowsPath: 1,
    pathlib.PosixPath: 2,
    pathlib.WindowsPath: 3,
}
_PATH_MAKERS: Final[dict[int, type[pathlib.PurePath]]] = {
    0: pathlib.PurePosixPath,
    1: pathlib.PureWindowsPath,
    # A path of the other system cannot be touched here, but it can be read and joined.
    2: pathlib.PurePosixPath if sys.platform == "win32" else pathlib.PosixPath,
    3: pathlib.WindowsPath if sys.platform == "win32" else pathlib.PureWindowsPath,
}


def _path_bytes(value: pathlib.PurePath) -> bytes:
    text = str(value)
    # Some versions of Python read a few odd Windows paths, such as `//a//`, back as others.
    if isinstance(value, pathlib.PureWindowsPath) and type(value)(text) != value:
        raise RefusedError(
            f"the path {text!r} does not come back from its own text",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="save str(path)",
        )
    return bytes((_PATHS[type(value)],)) + text.encode("utf-8", "surrogatepass")


_ADDRESSES: Final = (
    "IPv4Address",
    "IPv6Address",
    "IPv4Network",
    "IPv6Network",
    "IPv4Interface",
    "IPv6Interface",
)


def _address_bytes(value: Any) -> bytes:
    return bytes((_ADDRESSES.index(type(value).__name__),)) + str(value).encode("utf-8", "surrogatepass")


def _no_bytes(_value: EllipsisType) -> bytes:
    return b""


Taker = tuple[int, Callable[[Any], bytes]]

TAKE: Final[dict[type, Taker]] = {
    int: (wire.BIG_INT, big_int_bytes),
    complex: (wire.COMPLEX, _complex_bytes),
    bytearray: (wire.BYTEARRAY, bytes),
    EllipsisType: (wire.ELLIPSIS, _no_bytes),
    **dict.fromkeys(_PATHS, (wire.PATH, _path_bytes)),
}

_LATE: Final[dict[tuple[str, str], Taker]] = {
    ("decimal", "Decimal"): (wire.DECIMAL, _decimal_bytes),
    ("uuid", "UUID"): (wire.UUID, _uuid_bytes),
    ("zoneinfo", "ZoneInfo"): (wire.ZONEINFO, _zone_bytes),
    **{("ipaddress", name): (wire.IPADDRESS, _address_bytes) for name in _ADDRESSES},
}


def late_taker(cls: type) -> Taker | None:
    """The taker of a class from a module that is imported only where it is used."""
    taker = _LATE.get((cls.__module__, cls.__qualname__))
    # A class may claim any name; only the one its module has under that name is meant.
    if taker is None or getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls:
        return None
    TAKE[cls] = taker
    return taker


def _make_big_int(payload: bytes) -> int:
    return int.from_bytes(payload, "big", signed=True)


def _make_surrogates(payload: bytes) -> str:
    return payload.decode("utf-8", "surrogatepass")


def _make_complex(payload: bytes) -> complex:
    if len(payload) != _COMPLEX.size:
        raise MalformedError("a complex number of another length")
    return complex(*_COMPLEX.unpack(payload))


def _make_decimal(payload: bytes) -> Any:
    import decimal

    # A program may have switched this signal off; bad text would then silently become NaN.
    context = decimal.Context(traps=[decimal.InvalidOperation])
    return decimal.Decimal(payload.decode("ascii"), context)


def _make_uuid(payload: bytes) -> uuid.UUID:
    import uuid

    if len(payload) == 16:
        return uuid.UUID(bytes=payload)
    if len(payload) != 17:
        raise MalformedError("a UUID of another length")
    safety = uuid.SafeUUID(int.from_bytes(payload[16:], "big", signed=True))
    return uuid.UUID(bytes=payload[:16], is_safe=safety)


def _make_zone(payload: bytes) -> zoneinfo.ZoneInfo:
    import zoneinfo

    if not _is_zone_key(payload):
        raise MalformedError("a time zone whose key is no zone name")
    return zoneinfo.ZoneInfo(payload.decode("ascii"))


def _make_path(payload: bytes) -> pathlib.PurePath:
    return _PATH_MAKERS[payload[0]](payload[1:].decode("utf-8", "surrogatepass"))


def _make_address(payload: bytes) -> Any:
    import ipaddress

    return getattr(ipaddress, _ADDRESSES[payload[0]])(payload[1:].decode("utf-8", "surrogatepass"))


def _make_ellipsis(payload: bytes) -> EllipsisType:
    if payload:
        raise MalformedError("an Ellipsis with a payload")
    return ...


MAKE: Final[dict[int, Callable[[bytes], Any]]] = {
    wire.BIG_INT: _make_big_int,
    wire.SURROGATES: _make_surrogates,
    wire.BYTEARRAY: bytearray,
    wire.COMPLEX: _make_complex,
    wire.DECIMAL: _make_decimal,
    wire.UUID: _make_uuid,
    wire.ZONEINFO: _make_zone,
    wire.PATH: _make_path,
    wire.IPADDRESS: _make_address,
    wire.ELLIPSIS: _make_ellipsis,
}
