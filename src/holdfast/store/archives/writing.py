"""The text of an archive: a checkpoint on many lines or on one, and the first line of a session.

On many lines the envelope is sorted and each value has a line of its own, so that in git one changed value is one
changed line. The state stands among the sorted fields, with its own keys in the order they have: another order would be
another state. The pieces are handed out as they are made: no text of a whole state is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.errors import ErrorCode, UnsupportedError
from holdfast.objects.codec.errors import MalformedError
from holdfast.objects.exact import exact_json
from holdfast.storage.records import CheckpointRow, SessionRow
from holdfast.store.archives.envelope import SessionHeader, envelope_of, header_of


def checkpoint_text(row: CheckpointRow, owner: SessionRow, state: Any, *, one_line: bool) -> Iterator[str]:
    """A checkpoint with its state, in pieces that end with a line break.

    Args:
        row: The checkpoint.
        owner: Its session.
        state: What is stored, with `Opaque` for objects of classes.
        one_line: As a line of JSON Lines.

    Raises:
        UnsupportedError: The state holds a time zone of a class of its own, for which there is no notation.
    """
    document = envelope_of(row, owner) | {"state": state}
    try:
        yield from exact_json({key: document[key] for key in sorted(document)}, one_line=one_line)
    except MalformedError as error:
        raise UnsupportedError(
            f"checkpoint {row.id.hex()[:12]} of session {row.session!r} cannot be exported: {error}",
            code=ErrorCode.NOT_SUPPORTED,
            hint="copy_to takes every state along; or save the time zone by its name",
            checkpoint=row.id.hex(),
        ) from error
    yield "\n"


def header_text(header: SessionHeader) -> Iterator[str]:
    """The first line of a whole session."""
    made = header_of(header)
    yield from exact_json({key: made[key] for key in sorted(made)}, one_line=True)
    yield "\n"
