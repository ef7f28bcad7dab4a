"""What an import can say no to: a source that is none, and a value that cannot be taken over.

An error about a value names its place in the source (thread, namespace, checkpoint, channel), so that a person can look
at it there. A URL is shown without its password, or not at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.errors import (
    ConflictError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    StateError,
    UnsupportedError,
)
from holdfast.integrations.langgraph.configs import thread_text
from holdfast.record import Record

_SHOWN = 5
"""Threads that are named."""


class Spot(Record):
    """Where in the source a value is."""

    thread: str
    namespace: str
    checkpoint: str
    channel: str = ""

    def __str__(self) -> str:
        parts = [f"thread {self.thread!r}"]
        if self.namespace:
            parts.append(f"namespace {self.namespace!r}")
        parts.append(f"checkpoint {self.checkpoint}")
        if self.channel:
            parts.append(f"channel {self.channel!r}")
        return ", ".join(parts)


class BadValueError(Exception):
    """Stored bytes that are no value, or one that is not taken over. Who knows the spot makes it an error of ours."""

    def __init__(self, why: str, *, hint: str, code: ErrorCode) -> None:
        super().__init__(why)
        self.hint = hint
        self.code = code

    def at(self, spot: Spot) -> HoldfastError:
        """The error to raise, with the place it happened at."""
        kind = StateError if self.code is ErrorCode.DECODE_FAILED else InvalidInputError
        return kind(f"{spot}: {self}", code=self.code, hint=self.hint, **spot._asdict())


@contextmanager
def located(spot: Spot) -> Iterator[None]:
    """Say where it was that the store could not keep a value: too deep, too large, a name that is none."""
    try:
        yield
    except (InvalidInputError, UnsupportedError) as error:
        details = {**error.details, **spot._asdict()}
        raise type(error)(f"{spot}: {error}", code=error.code, hint=error.hint, **details) from error


def malformed(why: str) -> BadValueError:
    """Bytes that LangGraph's serializer does not write."""
    return BadValueError(
        f"the stored value cannot be read: {why}",
        hint="look whether LangGraph can still read this thread; --keep-going imports the others",
        code=ErrorCode.DECODE_FAILED,
    )


def refused_kind(kind: str | None) -> BadValueError:
    """A value in an encoding that is not taken over."""
    if kind == "pickle":
        why = "the value is a pickle, which runs code when it is read"
        hint = (
            "load the thread with its own program and save it there without pickle_fallback; "
            "--keep-going imports the others"
        )
    elif kind is not None and "+" in kind:
        why = f"the value is encrypted ({kind.partition('+')[2]!r})"
        hint = "save it again without EncryptedSerializer; --keep-going imports the other threads"
    else:
        why = f"the value is of the kind {kind!r}, which LangGraph's own serializer does not write"
        hint = "save it again with JsonPlusSerializer; --keep-going imports the other threads"
    return BadValueError(why, hint=hint, code=ErrorCode.VALUE_UNSUPPORTED)


def source_missing(shown: str) -> NotFoundError:
    """There is no file."""
    return NotFoundError(
        f"there is no file {shown} to import from",
        code=ErrorCode.SOURCE_MISSING,
        hint="name the file that SqliteSaver writes, or the postgresql:// URL of PostgresSaver's database",
        source=shown,
    )


def source_unknown(shown: str, why: str, *, hint: str = "") -> InvalidInputError:
    """Something is there, but no database of LangGraph's."""
    return InvalidInputError(
        f"{shown} is no database of LangGraph's SqliteSaver or PostgresSaver: {why}",
        code=ErrorCode.SOURCE_UNKNOWN,
        hint=hint or "name the database that the saver of the graph was opened with",
        source=shown,
    )


def source_empty(shown: str) -> NotFoundError:
    """A database of LangGraph's without anything in it."""
    return NotFoundError(
        f"there is no thread in {shown}",
        code=ErrorCode.SOURCE_EMPTY,
        hint="look whether this is the database that the graph writes to; nothing was imported",
        source=shown,
    )


def thread_missing(shown: str, thread: str) -> NotFoundError:
    """A thread was asked for by name, and is not there."""
    return NotFoundError(
        f"there is no thread {thread!r} in {shown}",
        code=ErrorCode.SESSION_MISSING,
        hint="without a name all threads are imported; ids are compared letter by letter",
        source=shown,
        session=thread,
    )


def thread_differs(thread: str, store: str, why: str, *, begun: bool = False) -> ConflictError:
    """The store has the thread already, otherwise."""
    rest = "" if begun else "; nothing of the thread was written"
    word = shlex.quote(thread)
    return ConflictError(
        f"session {thread!r} of {store} is not this thread: {why}{rest}",
        code=ErrorCode.HISTORY_DIFFERS,
        hint=f"import it under another id (--thread {word}={word}-imported) or into another store; or, if nobody needs "
        f"that session, erase it first, which asks for the name of the store: holdfast forget --session {word}",
        session=thread,
        store=store,
    )


def session_for(thread: str, target: str) -> str:
    """The id of the session that a thread becomes."""
    try:
        return thread_text(target)
    except InvalidInputError as error:
        whose = (
            f"thread {thread!r:.60}: " if thread == target else f"thread {thread!r:.60}, as {target!r:.60}: "
        )
        raise InvalidInputError(
            f"{whose}{error}",
            code=error.code,
            hint=f"give it another id: --thread {shlex.quote(f'{thread}=NEW')} ({error.hint})",
            thread=thread,
            **error.details,
        ) from None


def stopped(hint: str, imported: Sequence[str], left: Sequence[str]) -> str:
    """What to do next, and how far an import had come."""
    text = f"{hint}. Imported: {_named(imported)}; not imported: {_named(left)}"
    # Some hints say it already.
    return text if len(left) == 1 or "--keep-going" in hint else f"{text}; --keep-going imports the others"


def _named(threads: Sequence[str]) -> str:
    shown = ", ".join(map(repr, threads[:_SHOWN]))
    more = len(threads) - _SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown or "none"
