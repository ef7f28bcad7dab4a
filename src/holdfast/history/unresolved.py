"""What is said of a ref that names nothing, or more than one thing: what was meant, and what there is instead.

All of this runs on the way to an error only, so it may read more than finding a checkpoint does, within bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from holdfast.errors import ErrorCode, NotFoundError
from holdfast.history.checkpoint import moment
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointRow, Query

SHOWN = 10

_COMPARED = 200
"""Names that are looked at for one that is nearly the same."""
"""Candidates listed: enough to choose from, few enough to read."""

_SEARCHED = 5_000
"""Checkpoints whose tags are compared with a misspelt one; what was tagged lately is what is meant."""

_MESSAGE = 50
LOOK = "s.log() (holdfast list) shows what there is"


def describe(row: CheckpointRow) -> str:
    """A checkpoint in a list of candidates: its id, number, time, and the start of its message."""
    message = row.message if row.edited_message is None else row.edited_message
    # A message may hold anything; in quotes it is escaped, and cannot be mistaken for the rest.
    short = message if len(message) <= _MESSAGE else message[: _MESSAGE - 1] + "…"
    return f"{row.id.hex()[:16]} (#{row.seq}, {time_text(row.created_at)}, {short!r})"


def time_text(microseconds: int) -> str:
    """A stored time for a message: ISO 8601 in UTC, to the second."""
    return moment(microseconds).isoformat(timespec="seconds").replace("+00:00", "Z")


def ambiguous(session: str, ref: str, value: str, rows: Sequence[CheckpointRow]) -> NotFoundError:
    """More than one id begins with these digits."""
    shown = rows[:SHOWN]
    more = "; and more" if len(rows) > SHOWN else ""
    return NotFoundError(
        f"{value!r} could be {'; '.join(describe(row) for row in shown)}{more}",
        code=ErrorCode.REF_AMBIGUOUS,
        hint="give more digits of the id",
        session=session,
        ref=ref,
        candidates=[row.id.hex() for row in shown],
    )


def missing(
    session: str, ref: str, why: str, *, hint: str = LOOK, candidates: Sequence[str] = ()
) -> NotFoundError:
    """The ref can be read, and names nothing in the session."""
    return NotFoundError(
        f"{ref!r:.100} names nothing in session {session!r}: {why}",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint=hint,
        session=session,
        ref=ref,
        candidates=list(candidates),
    )


def missing_tag(reader: Reader, session: str, ref: str, tag: str) -> NotFoundError:
    """No checkpoint of the session has this tag; perhaps another session has, or another tag was meant."""
    why = f"no checkpoint has the tag {tag!r}"
    rows = reader.checkpoints(Query(session=session, limit=_SEARCHED))
    close = near(tag, sorted({each for row in rows for each in row.tags}))
    if close:
        return missing(session, ref, why, hint=did_you_mean(close, LOOK), candidates=close)
    elsewhere = reader.checkpoints(Query(tag=tag, limit=1))
    if elsewhere:
        other = elsewhere[0].session
        return missing(
            session, ref, f"{why}; session {other!r} has one", hint=f"use store.session({other!r})"
        )
    return missing(session, ref, why)


def missing_number(reader: Reader, session: str, ref: str, number: int) -> NotFoundError:
    """There is no such number, or what had it was removed."""
    why = f"there is no checkpoint #{number}"
    if reader.checkpoints(Query(session=session, seq=number, include_hidden=True, limit=1)):
        return missing(session, ref, f"{why} any more: it was removed")
    newest = reader.checkpoints(Query(session=session, limit=1))
    return missing(session, ref, f"{why}; the newest is #{newest[0].seq}" if newest else why)


def missing_key(reader: Reader, session: str, ref: str, key: str) -> NotFoundError:
    """No checkpoint of the session has this key, or the one that had it was removed."""
    why = f"no checkpoint has the key {key!r:.100}"
    if reader.checkpoints(Query(session=session, key=key, include_hidden=True, limit=1)):
        return missing(session, ref, f"{why} any more: it was removed")
    return missing(session, ref, why)


def missing_name(reader: Reader, session: str, ref: str, name: str, *, prefix: bool) -> NotFoundError:
    """There is no such branch, and, where it could be a prefix of an id, no such checkpoint."""
    why = f"there is no branch {'and no checkpoint ' if prefix else ''}{name!r}"
    if prefix:
        if reader.checkpoints(Query(session=session, id_prefix=name.lower(), include_hidden=True, limit=1)):
            return missing(session, ref, f"{why} any more: it was removed")
        others = reader.checkpoints(Query(id_prefix=name.lower(), limit=1))
        if others:
            other = others[0].session
            return missing(
                session,
                ref,
                f"{why} in it: it belongs to session {other!r}",
                hint=f"use store.session({other!r})",
            )
    hint = LOOK
    if name.isdecimal():
        hint = f"for the checkpoint with that number write '#{name}', with quotes in a shell"
    close = near(name, (each.name for each in reader.branches(session)))
    if not close and reader.checkpoints(Query(session=session, tag=name, limit=1)):
        close = [f"tag:{name}"]
    return missing(session, ref, why, hint=did_you_mean(close, hint), candidates=close)


def near(word: str, known: Iterable[str]) -> list[str]:
    """The known words that `word` may be a slip of, the nearest first."""
    # difflib is slow to import and only needed on the way to an error.
    import difflib

    # It compares at a hundred words in ten milliseconds; programs that ask for a name to see whether it is there, of
    # thousands, should not wait for a hint that nobody reads.
    return difflib.get_close_matches(word, list(islice(known, _COMPARED)), n=3, cutoff=0.6)


def did_you_mean(close: Sequence[str], otherwise: str) -> str:
    """The hint for a slip, where there is one."""
    return f"did you mean {close[0]!r}?" if close else otherwise
