"""What to say of a part of a state that is not there: which step leads nowhere, and what stands there instead.

The part above is read to say so. That may be more than was asked for, and happens on the way to an error only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.cli._suggest import close_names, did_you_mean
from holdfast.errors import ErrorCode, HoldfastError, NotFoundError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session

_LISTED = 10
"""Keys in a hint: enough to recognise the one that was meant."""

_LAST = re.compile(
    r"^state(?P<above>.*)\[(?P<step>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-?[0-9]+)\]$", re.DOTALL
)


@contextmanager
def explaining(session: Session, checkpoint: Checkpoint) -> Iterator[None]:
    """Where the block asks for a part that is not there, name the step that is missing and the keys beside it."""
    try:
        yield
    except NotFoundError as error:
        if error.code is not ErrorCode.PATH_MISSING:
            raise
        raise _explained(session, checkpoint, error) from error


def _explained(session: Session, checkpoint: Checkpoint, error: NotFoundError) -> NotFoundError:
    found = _LAST.match(str(error.details.get("path", "")))
    if found is None:
        return error
    step = ast.literal_eval(found["step"])
    try:
        value = session.load(checkpoint, path=found["above"] or None)
    except HoldfastError:
        # What is above cannot be read alone; what is known stays said.
        return error
    where = f"state{found['above']}"
    keys = _keys(value)
    if isinstance(step, str) and keys is not None:
        near = close_names(step, keys)
        listed = ", ".join(keys[:_LISTED]) + (
            f" and {len(keys) - _LISTED:,} more" if len(keys) > _LISTED else ""
        )
        return _error(
            f"there is no {step!r:.100} in {where}",
            f"{did_you_mean(near)} its keys are: {listed}".strip() if keys else f"{where} is empty",
            error,
            near,
        )
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        count = len(value)
        last = f"items are [0] to [{count - 1}], or [-1] for the last" if count else f"{where} is empty"
        items = "1 item" if count == 1 else f"{count:,} items"
        return _error(f"there is no [{step!r:.100}] in {where}, a list of {items}", last, error)
    kind = type(value).__name__
    return _error(
        f"there is no [{step!r:.100}] in {where}, which is of type {kind}", f"the path ends at {where}", error
    )


def _keys(value: Any) -> list[str] | None:
    """The names that lead into a value; None where there are none by nature."""
    data = getattr(value, "data", value) if type(value).__name__ == "Opaque" else value
    if isinstance(data, Mapping):
        return [key for key in data if isinstance(key, str)]
    fields = getattr(type(value), "__dataclass_fields__", None)
    return None if fields is None else list(fields)


def _error(message: str, hint: str, error: NotFoundError, near: Sequence[str] = ()) -> NotFoundError:
    return NotFoundError(
        message, code=ErrorCode.PATH_MISSING, hint=hint, candidates=list(near), path=error.details["path"]
    )
