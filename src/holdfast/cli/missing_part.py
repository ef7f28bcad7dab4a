"""What to say of a part of a state that is not there: which step leads nowhere, and what stands there instead.

The part above is read to say so. That may be more than was asked for, and happens on the way to an error only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.errors import ErrorCode, HoldfastError, NotFoundError
from holdfast.reports.text import quoted
from holdfast.settings.near import close_names, did_you_mean

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
        near = _below(value, step, found["above"]) or close_names(step, keys)
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


def _below(value: Any, step: str, above: str) -> list[str]:
    """The path of what has this name one level further down, if that is clear; all of it is loaded already.

    Of several, a list or a dict is what has parts that one asks for, and a number is most likely about it.
    """
    data = _data(value)
    if not isinstance(data, Mapping):
        return []
    inside = {
        key: part[step]
        for key, each in data.items()
        if isinstance(key, str) and isinstance(part := _data(each), Mapping) and step in part
    }
    large = [key for key, part in inside.items() if isinstance(_data(part), Mapping | list | tuple)]
    clear = large or list(inside)
    return [f"{_typed(above)}{_step(clear[0])}{_step(step)}".removeprefix(".")] if len(clear) == 1 else []


def _typed(path: str) -> str:
    """A path as `--path` takes it: the steps that can be words are."""
    return re.sub(r"\['([A-Za-z_]\w*)'\]", r".\1", path)


def _step(name: str) -> str:
    return f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name) else quoted(name)


def _data(value: Any) -> Any:
    return getattr(value, "data", value) if type(value).__name__ == "Opaque" else value


def _keys(value: Any) -> list[str] | None:
    """The names that lead into a value; None where there are none by nature."""
    data = _data(value)
    if isinstance(data, Mapping):
        return [key for key in data if isinstance(key, str)]
    fields = getattr(type(value), "__dataclass_fields__", None)
    return None if fields is None else list(fields)


def _error(message: str, hint: str, error: NotFoundError, near: Sequence[str] = ()) -> NotFoundError:
    return NotFoundError(
        message, code=ErrorCode.PATH_MISSING, hint=hint, candidates=list(near), path=error.details["path"]
    )
