"""Which threads are imported, and what each is called in the store.

A thread keeps its id unless it is given another: because the store has a session of that name already, or because the
id is none that a session can have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.integrations.langgraph.importing.refusing import thread_missing
from holdfast.integrations.langgraph.importing.source import Source

Threads = Sequence[str] | Mapping[str, str]
"""Ids of threads; or, by its id, what each is to be called."""


def checked(threads: Threads | None) -> dict[str, str] | None:
    """The threads and their names in the store; None for all of them under their own.

    Raises:
        InvalidInputError: That is no list of ids, or two threads would get one name.
    """
    if threads is None:
        return None
    wanted = dict(threads) if isinstance(threads, Mapping) else {}
    if not isinstance(threads, (str, Mapping)):
        wanted = {thread: thread for thread in threads}
    if isinstance(threads, str) or any(type(each) is not str for pair in wanted.items() for each in pair):
        raise InvalidInputError(
            "threads must be a list of thread ids",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass threads=["one", "another"], or {"one": "new id"}, or leave it out for all',
            argument="threads",
        )
    _check_apart(wanted)
    return wanted


def named(source: Source, texts: Sequence[str]) -> dict[str, str]:
    """What was typed: `ID`, or `OLD=NEW`. An id that has a `=` itself is meant where there is such a thread.

    Raises:
        NotFoundError: There is no such thread.
        InvalidInputError: Two threads would get one name.
    """
    wanted: dict[str, str] = {}
    for text in texts:
        old, new = next((pair for pair in _readings(text) if _size(source, pair[0]) is not None), (text, ""))
        if not new:
            raise thread_missing(source.shown, text.partition("=")[0] if "=" in text else text)
        wanted[old] = new
    _check_apart(wanted)
    return wanted


def count(source: Source, wanted: Mapping[str, str]) -> int:
    """How many checkpoints these threads have. All are looked for before any is imported."""
    total = 0
    for thread in wanted:
        size = _size(source, thread)
        if size is None:
            raise thread_missing(source.shown, thread)
        total += size
    return total


def _readings(text: str) -> Iterator[tuple[str, str]]:
    yield text, text
    for at, character in enumerate(text):
        if character == "=" and text[at + 1 :]:
            yield text[:at], text[at + 1 :]


def _size(source: Source, thread: str) -> int | None:
    entries = len(source.index(thread))
    return entries if entries or source.written(thread) else None


def _check_apart(wanted: Mapping[str, str]) -> None:
    taken: dict[str, str] = {}
    for old, new in wanted.items():
        if taken.setdefault(new, old) != old:
            raise InvalidInputError(
                f"the threads {taken[new]!r:.60} and {old!r:.60} would both become session {new!r:.60}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="give each another id: --thread OLD=NEW",
                argument="threads",
            )
