"""numpy's arrays and numbers, for programs that use numpy; nothing here imports it.

An array is its type, its shape, its order in memory and its bytes. Arrays of Python objects are refused: they are not
data. A program that has not imported numpy gets what was stored as `holdfast.Opaque`.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from holdfast.errors import ErrorCode
from holdfast.integrations.langgraph.kinds import Kept
from holdfast.objects.codec.classes import mismatch
from holdfast.objects.codec.errors import RefusedError

_PREFIX: Final = "numpy."

# Numbers, truth values, dates and text of a fixed width, in either order of bytes: no objects and no code.
_PLAIN_TYPE: Final = re.compile(r"[<>|=][biufcmMSUV][0-9]{1,9}(\[[0-9]{0,9}[A-Za-z]{1,2}\])?")


def is_array_class(cls: type) -> bool:
    """Whether this is numpy's array class, or one of its kinds of number."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    return cls is numpy.ndarray or (issubclass(cls, numpy.generic) and cls is numpy.dtype(cls).type)


def array_name(cls: type) -> str:
    """What its objects are stored under."""
    return _PREFIX + cls.__name__


def class_named(name: str) -> type | None:
    """The class whose objects are stored under a name, where numpy has been imported."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not name.startswith(_PREFIX):
        return None
    # What numpy has at hand, not what it would import when asked for: the name comes from stored bytes.
    found = vars(numpy).get(name.removeprefix(_PREFIX))
    return found if isinstance(found, type) and is_array_class(found) else None


def kept_array(cls: type[Any]) -> Kept:
    """How the objects of one of these classes are kept."""
    numpy = sys.modules["numpy"]

    def encode(value: Any) -> dict[str, Any]:
        kind = value.dtype.str
        if not _PLAIN_TYPE.fullmatch(kind) or numpy.dtype(kind) != value.dtype:
            raise RefusedError(
                f"a numpy value of type {value.dtype} is not plain numbers or text, and cannot be saved",
                code=ErrorCode.VALUE_UNSUPPORTED,
                hint="save value.tolist(), or one array for each field",
            )
        if cls is not numpy.ndarray:
            return {"dtype": kind, "data": value.tobytes()}
        is_columns = value.flags.f_contiguous and not value.flags.c_contiguous
        order = "F" if is_columns else "C"
        return {"dtype": kind, "shape": list(value.shape), "order": order, "data": value.tobytes(order=order)}

    def decode(data: Any) -> Any:
        if not _PLAIN_TYPE.fullmatch(data["dtype"]):
            raise mismatch(cls, "it is of no plain type")
        if data["dtype"][1] == "U" and not _is_text(numpy, data):
            raise mismatch(cls, "its text has characters that there are not")
        # A copy, because the bytes belong to the state, and could not be written to.
        flat = numpy.frombuffer(data["data"], dtype=numpy.dtype(data["dtype"])).copy()
        return flat.reshape(data["shape"], order=data["order"]) if cls is numpy.ndarray else flat[0]

    return Kept(encode, decode)


def _is_text(numpy: Any, data: Any) -> bool:
    """Whether text of a fixed width, which is four bytes a character, has only characters that Python can hold."""
    if len(data["data"]) % 4:
        # Of no whole number of characters, which numpy says itself.
        return True
    order = ">" if data["dtype"][0] == ">" else "<"
    return not (numpy.frombuffer(data["data"], dtype=f"{order}u4") > sys.maxunicode).any()
