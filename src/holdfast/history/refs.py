"""How a person names a checkpoint, or a range of them, and which ones those are.

    range  = [ref] ".." [ref]     what the right one has behind it and the left one has not; "@" where right is left out
    ref    = base [ "~" [count] ]
    base   = "@"                  the head of the branch in use, also "HEAD" and "latest";  "@-" is "@~1"
           | branch               the head of that branch
           | "tag:" name          the newest checkpoint of the session with that tag
           | ["#"] number         the checkpoint with that sequence number
           | "key:" text          the checkpoint of the session with that key
           | hex                  a whole id, or a prefix of four digits or more
           | "@{" time "}"        the last one of the branch in use at that time or before
           | branch "@{" time "}" the same of another branch
           | "tag:" name "@{" time "}"   the newest with that tag at that time or before
           | ISO time             "2026-11-15T17:00" is "@{2026-11-15T17:00}"; dashes, and at least the whole date

`history.times` says what a time is; a date alone is the first moment of that day. `~3` goes three steps back along
`prev`. A word that could be several things is the branch if there is one of that name, then a time, then a prefix. A
bare number is never guessed: where it is also a branch or the first digits of an id, that is an error that says so. A
tag whose own name ends like a time in braces can only be used through its checkpoints. A key is taken as it is, but for
a `~` with a number at its end, which counts steps there too. `..` always makes a range where a range is possible.

Walks follow `prev`, from a checkpoint to its nearest ancestor that is still there. A link that leads nowhere is damage,
and is said to be: a walk never just ends early. A ref that names nothing, or more than one thing, is an error that says
what there is instead; only on the way to that is more read than needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Literal, NoReturn

from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError, NotFoundError, shown
from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.history.names import check_branch, check_key, check_tags
from holdfast.history.times import to_microseconds
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query

_REF = re.compile(
    r"(?s)(?P<base>key:.*?|@-?|@\{[^{}~]*\}|#[0-9]{1,18}|[^@#~][^~]*)(?:~(?P<count>[0-9]{0,9}))?"
)
_TIMED = re.compile(r"(?s)(?P<base>.*)@\{(?P<when>[^{}]*)\}")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,]+ ?(?:[Zz]|[+-][0-9:]+)?)?")
_HEX = re.compile(r"[0-9a-f]{4,64}")
_NUMBER = re.compile(r"[0-9]{1,18}")
_HEADS = ("HEAD", "latest")

_PAGE = 256
"""Rows that a walk reads at once: one query for most logs, and little wasted when only the newest few are wanted."""
_SHOWN = 10
"""Candidates listed: enough to choose from, few enough to read."""
_COMPARED = 200
"""Names that are compared with a misspelt one: enough for a hint that programs never read."""
_SEARCHED = 5_000
"""Checkpoints whose tags are compared with a misspelt one."""
_MESSAGE = 50
_LIST = "s.log() (holdfast list) shows what there is"

Kind = Literal["head", "tag", "seq", "id", "name", "key"]


class Ref(Record):
    """A parsed ref: where to start, how many steps to go back from there, and the time that was asked for."""

    kind: Kind
    value: str
    back: int
    text: str
    when: str | None = None
    """A time as it was written. It is read when the ref is resolved: `2 hours ago` depends on when that is."""


class Range(Record):
    """A parsed range; None is an end that was left open."""

    start: Ref | None
    end: Ref | None
    text: str


def parse(text: str) -> Ref:
    """Parse the text of a ref.

    Raises:
        InvalidInputError: It is not in the grammar (`bad-ref`), or holds a name that cannot be one (`bad-name`).
    """
    match = _REF.fullmatch(text) if type(text) is str else None
    if match is None:
        raise _not_a_ref(text)
    base, count = match["base"], match["count"]
    back = 0 if count is None else int(count or 1)
    if base.startswith("key:"):
        return Ref("key", check_key(base[4:]), back, text)
    timed = _TIMED.fullmatch(base)
    when = None if timed is None else timed["when"]
    if timed is not None:
        base = timed["base"] or "@"
    if base in ("@", "@-"):
        return Ref("head", "", back + len(base) - 1, text, when)
    if base.startswith("tag:"):
        return Ref("tag", check_tags([base[4:]])[0], back, text, when)
    if base.startswith("#") and when is None:
        return Ref("seq", str(int(base[1:])), back, text)
    if _ISO.fullmatch(base) and (":" in base or " " in base):
        return Ref("head", "", back, text, base)
    try:
        return Ref("name", check_branch(base), back, text, when)
    except InvalidInputError as error:
        raise _not_a_ref(text) from error


def is_range(text: object) -> bool:
    """Whether a text that may be a ref or a range is a range."""
    return isinstance(text, str) and ".." in text


def parse_range(text: str) -> Range:
    """Parse `a..b`, `a..` or `..b`.

    Raises:
        InvalidInputError: It is not a range, or one of its ends is not a ref.
    """
    start, dots, end = text.partition("..") if type(text) is str else ("", "", "")
    if not dots or not (start or end) or end.startswith(".") or ".." in end:
        raise InvalidInputError(
            f"{text!r:.100} is not a range",
            code=ErrorCode.BAD_REF,
            hint="write A..B, A.. or ..B, where A and B are refs: '#3..#7', 'main..try-1', '@{2 hours ago}..'",
        )
    return Range(parse(start) if start else None, parse(end) if end else None, text)


def resolve(
    reader: Reader, session: str, branch: str, ref: str | Ref | Checkpoint, *, now: int
) -> CheckpointRow:
    """The row that `ref` names in `session`, with `branch` in use; `now` is what relative times count from.

    Raises:
        NotFoundError: It names nothing that is there, or more than one thing.
        InvalidInputError: It is not a ref (`bad-ref`), or holds what is not a time (`bad-time`).
    """
    if ref == "@":
        return get_head(reader, session, branch)
    parsed = _parsed(ref)
    start = _start(reader, session, branch, parsed, now)
    if not parsed.back:
        return start
    steps = 0
    for row in ancestors(reader, start, limit=parsed.back + 1):
        if steps == parsed.back:
            return row
        steps += 1
    raise NotFoundError(
        f"{parsed.text} goes back {parsed.back}, and only {steps - 1} come before #{start.seq}",
        code=ErrorCode.HISTORY_TOO_SHORT,
        hint=_LIST,
        session=session,
        ref=parsed.text,
    )


def resolve_range(
    reader: Reader, session: str, branch: str, text: str | Range, *, now: int
) -> Iterator[CheckpointRow]:
    """The rows of a range, newest first: the right end and its ancestors, without the left end and its ancestors.

    A left end at a time before the first checkpoint leaves nothing out. Rows are read as they are asked for.

    Raises:
        NotFoundError: An end names nothing that is there, or more than one thing.
        InvalidInputError: It is not a range.
    """
    parsed = text if isinstance(text, Range) else parse_range(text)
    end = resolve(reader, session, branch, parsed.end or "@", now=now)
    if parsed.start is None:
        return ancestors(reader, end)
    try:
        start = resolve(reader, session, branch, parsed.start, now=now)
    except NotFoundError as error:
        if error.code is not ErrorCode.BEFORE_HISTORY:
            raise
        return ancestors(reader, end)
    return _between(reader, start, end)


def nothing_in(text: str, has: Callable[[str], bool]) -> str:
    """What to say of an empty range: that it is empty, and whether it has something the other way round.

    To be empty is no mistake: `main..idea` asks what `idea` has that `main` has not. But `#5..#2` most likely is one.
    """
    parsed = parse_range(text)
    if parsed.start is not None:
        turned = f"{parsed.end.text if parsed.end else '@'}..{parsed.start.text}"
        # A beginning before all history names nothing as an end.
        with suppress(NotFoundError):
            if has(turned):
                return f"nothing is in {text}; did you mean {turned}?"
    return f"nothing is in {text}"


def find_head(reader: Reader, session: str, branch: str) -> CheckpointRow | None:
    """The head of a branch, or None where the session or the branch does not exist."""
    found = reader.branch(session, branch)
    if found is None:
        return None
    return row_of(reader, found.head, f"the head of branch {branch!r} of session {session!r}")


def get_head(reader: Reader, session: str, branch: str) -> CheckpointRow:
    """The head of a branch that has one; otherwise the error that says why not, and what there is instead."""
    return find_head(reader, session, branch) or missing_head(reader, session, branch)


def row_of(reader: Reader, checkpoint: CheckpointId, what: str) -> CheckpointRow:
    """The row of an id that must be there: `what` says who claims so."""
    row = reader.checkpoint(checkpoint)
    if row is None or row.hidden:
        raise IntegrityError.row_damaged(what, why=f"checkpoint {checkpoint.hex()} is not in the store")
    return row


def ancestors(reader: Reader, start: CheckpointRow, *, limit: int | None = None) -> Iterator[CheckpointRow]:
    """Yield `start` and its ancestors, newest first."""
    page: dict[CheckpointId, CheckpointRow] = {}
    row, count = start, 0
    while limit is None or count < limit:
        yield row
        count += 1
        if row.prev is None:
            return
        found = page.pop(row.prev, None)
        if found is None:
            # Neighbours in history are nearly always neighbours by number.
            size = _PAGE if limit is None else min(_PAGE, max(limit - count, 1))
            rows = reader.checkpoints(Query(session=row.session, before_seq=row.seq, limit=size))
            page = {each.id: each for each in rows}
            found = page.pop(row.prev, None) or reader.checkpoint(row.prev)
        if found is None or found.session != row.session or found.seq >= row.seq or found.hidden:
            gone = "is not in the store" if found is None else "does not come before it"
            why = f"its ancestor {row.prev.hex()} {gone}"
            raise IntegrityError.row_damaged(f"checkpoint {row.id.hex()}", why=why)
        row = found


class Neighbours(Record):
    """The checkpoints on both sides of a moment."""

    before: CheckpointRow
    """The last one at that moment, or before it."""
    after: CheckpointRow | None
    """The first one after it."""


def around(
    reader: Reader, session: str, branch: str, at: int, *, tag: str | None = None, all_branches: bool = False
) -> Neighbours:
    """The neighbours of a moment, along the history of `branch` or among all checkpoints of the session.

    Along a branch `created_at` only falls on the way back. Over a whole session, clocks of several writers may
    disagree; there the order is by number, as everywhere.

    Raises:
        NotFoundError: The first one is younger (`before-history`), none has the tag, or there is no such branch.
    """
    where = f"session {session!r}"
    newest: CheckpointRow | None = None
    after: CheckpointRow | None = None
    if all_branches:
        older = reader.checkpoints(Query(session=session, tag=tag, until=at, limit=1))
        younger = reader.checkpoints(
            Query(session=session, tag=tag, since=at + 1, oldest_first=True, limit=1)
        )
        after = younger[0] if younger else None
        if older:
            return Neighbours(older[0], after)
        newest = after and reader.checkpoints(Query(session=session, tag=tag, limit=1))[0]
        if newest is None and (tag is None or reader.session(session) is None):
            missing_head(reader, session, branch)
    else:
        where = f"branch {branch!r} of {where}"
        for row in ancestors(reader, get_head(reader, session, branch)):
            if tag is not None and tag not in row.tags:
                continue
            if row.created_at <= at:
                return Neighbours(row, after)
            newest, after = newest or row, row
    if newest is None or after is None:
        _missing(reader, session, Ref("tag", tag or "", 0, f"tag:{tag}"))
    tagged = "" if tag is None else f" with the tag {tag!r}"
    raise NotFoundError(
        f"{where} has nothing{tagged} at {time_text(at)} or before: it goes from "
        f"{time_text(after.created_at)} (#{after.seq}) to {time_text(newest.created_at)} (#{newest.seq})",
        code=ErrorCode.BEFORE_HISTORY,
        hint=f"ask for a later time; the first checkpoint{tagged} is '#{after.seq}'",
        session=session,
        asked=moment(at).isoformat(),
        first=_when(after),
        newest=_when(newest),
        candidates=[after.id.hex()],
    )


def time_text(microseconds: int) -> str:
    """A stored time for a message: ISO 8601 in UTC, to the second."""
    return moment(microseconds).isoformat(timespec="seconds").replace("+00:00", "Z")


def missing_head(reader: Reader, session: str, branch: str) -> NoReturn:
    """Raise the NotFoundError that says why a branch has no head, and what there is instead."""
    if reader.session(session) is None:
        close = _near(session, (each.id for each in reader.sessions()))
        raise NotFoundError(
            f"session {session!r} has no checkpoint yet",
            code=ErrorCode.SESSION_MISSING,
            hint=_did_you_mean(close, "save() makes the first one"),
            session=session,
            candidates=close,
        )
    names = [each.name for each in reader.branches(session)]
    if not names:
        raise NotFoundError(
            f"every checkpoint of session {session!r} was deleted",
            code=ErrorCode.CHECKPOINT_MISSING,
            hint="save() starts it again; s.undo() brings them back until gc",
            session=session,
        )
    close = _near(branch, names)
    raise NotFoundError(
        f"session {session!r} has no branch {branch!r}",
        code=ErrorCode.BRANCH_MISSING,
        hint=_did_you_mean(close, f"its branches are: {', '.join(names[:_SHOWN])}"),
        session=session,
        branch=branch,
        candidates=close or names[:_SHOWN],
    )


def _between(reader: Reader, start: CheckpointRow, end: CheckpointRow) -> Iterator[CheckpointRow]:
    # Numbers fall along both lines, so walking them side by side finds where they meet, and reads nothing beyond that.
    line = ancestors(reader, start)
    left = next(line, None)
    for row in ancestors(reader, end):
        while left is not None and left.seq > row.seq:
            left = next(line, None)
        if left is not None and left.id == row.id:
            return
        yield row


def _parsed(ref: str | Ref | Checkpoint) -> Ref:
    if isinstance(ref, Checkpoint):
        return Ref("id", ref.id, 0, ref.id)
    return ref if isinstance(ref, Ref) else parse(ref)


def _start(reader: Reader, session: str, branch: str, ref: Ref, now: int) -> CheckpointRow:
    value = ref.value
    if ref.kind == "name" and value in _HEADS and reader.branch(session, value) is None:
        ref = ref._replace(kind="head")
    is_date = ref.kind == "name" and ref.when is None and _ISO.fullmatch(value)
    if is_date and reader.branch(session, value) is None:
        ref = ref._replace(kind="head", when=value)
    if ref.when is not None:
        at = to_microseconds(ref.when, now=now, what=f"{ref.text!r:.100}")
        if ref.kind == "tag":
            return around(reader, session, branch, at, tag=value, all_branches=True).before
        return around(reader, session, value if ref.kind == "name" else branch, at).before
    if ref.kind == "head":
        return get_head(reader, session, branch)
    found = _candidates(reader, session, ref)
    if len(found) > 1:
        raise _ambiguous(session, ref, found)
    return found[0] if found else _missing(reader, session, ref)


def _candidates(reader: Reader, session: str, ref: Ref) -> Sequence[CheckpointRow]:
    head = find_head(reader, session, ref.value) if ref.kind == "name" else None
    rows = [] if head is None else [head]
    if head is None or _NUMBER.fullmatch(ref.value):
        for query in _queries(ref):
            if query.id_prefix is not None and len(query.id_prefix) == 64:
                # A whole id is found directly, however many checkpoints the session has.
                row = reader.checkpoint(CheckpointId(bytes.fromhex(query.id_prefix)))
                rows += [row] if row is not None and row.session == session and not row.hidden else []
            else:
                rows += reader.checkpoints(query._replace(session=session))
    return list({row.id: row for row in rows}.values())


def _queries(ref: Ref) -> list[Query]:
    """What to look for in the rows of a session; a bare word may be a number, an id, or both."""
    value = ref.value
    if ref.kind == "tag":
        return [Query(tag=value, limit=1)]
    if ref.kind == "key":
        return [Query(key=value, limit=1)]
    by_number = [Query(seq=int(value), limit=1)] if _NUMBER.fullmatch(value) else []
    if ref.kind == "seq" or not _HEX.fullmatch(value.lower()):
        return by_number
    return [*by_number, Query(id_prefix=value.lower(), limit=_SHOWN + 1)]


def _ambiguous(session: str, ref: Ref, rows: Sequence[CheckpointRow]) -> NotFoundError:
    listed = "; ".join(_describe(row) for row in rows[:_SHOWN]) + ("; and more" if len(rows) > _SHOWN else "")
    number = f"write '#{ref.value}' for the number, or " if _NUMBER.fullmatch(ref.value) else ""
    return NotFoundError(
        f"{ref.value!r} could be {listed}",
        code=ErrorCode.REF_AMBIGUOUS,
        hint=f"{number}give more digits of the id",
        session=session,
        ref=ref.text,
        candidates=[row.id.hex() for row in rows[:_SHOWN]],
    )


def _describe(row: CheckpointRow) -> str:
    """A checkpoint in a list of candidates: its id, number, time, and the start of its message."""
    message = row.message if row.edited_message is None else row.edited_message
    # A message may hold anything; in quotes it is escaped, and cannot be mistaken for the rest.
    short = message if len(message) <= _MESSAGE else message[: _MESSAGE - 1] + "…"
    return f"{row.id.hex()[:16]} (#{row.seq}, {time_text(row.created_at)}, {short!r})"


def _missing(reader: Reader, session: str, ref: Ref) -> NoReturn:
    """Raise the NotFoundError that says what a ref does not name, and what there is instead."""
    value = ref.value
    if reader.session(session) is None:
        missing_head(reader, session, value)
    why = {
        "tag": f"no checkpoint has the tag {value!r}",
        "key": f"no checkpoint has the key {value!r:.100}",
        "seq": f"there is no checkpoint #{value}",
    }.get(ref.kind, f"there is no branch {value!r}")
    if ref.kind == "name":
        why += f" and no #{int(value)}" if _NUMBER.fullmatch(value) else ""
        why += " and no such id" if _HEX.fullmatch(value.lower()) else ""
    hint, close = _LIST, list[str]()
    for query in _queries(ref):
        if reader.checkpoints(query._replace(session=session, include_hidden=True, limit=1)):
            why += " any more: it was removed"
            break
        # Every session has a #1.
        named = query.tag is not None or query.id_prefix is not None
        if named and (others := reader.checkpoints(query._replace(limit=1))):
            why += f"; session {others[0].session!r} has one"
            hint = f"use store.session({others[0].session!r})"
            break
    else:
        if ref.kind == "tag":
            rows = reader.checkpoints(Query(session=session, limit=_SEARCHED))
            close = _near(value, sorted({each for row in rows for each in row.tags}))
        elif ref.kind == "name":
            close = _near(value, (each.name for each in reader.branches(session)))
            if not close and reader.checkpoints(Query(session=session, tag=value, limit=1)):
                close = [f"tag:{value}"]
        hint = _did_you_mean(close, _LIST)
    raise NotFoundError(
        f"{ref.text!r:.100} names nothing in session {session!r}: {why}",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint=hint,
        session=session,
        ref=ref.text,
        candidates=close,
    )


def _near(word: str, known: Iterable[str]) -> list[str]:
    """The known words that `word` may be a slip of, the nearest first."""
    # difflib is slow to import and only needed on the way to an error.
    import difflib

    return difflib.get_close_matches(word, list(islice(known, _COMPARED)), n=3, cutoff=0.6)


def _did_you_mean(close: Sequence[str], otherwise: str) -> str:
    return f"did you mean {close[0]!r}?" if close else otherwise


def _when(row: CheckpointRow) -> dict[str, object]:
    return {"id": row.id.hex(), "seq": row.seq, "created_at": moment(row.created_at).isoformat()}


def _not_a_ref(text: object) -> InvalidInputError:
    hint = "use @, @~3, a branch, tag:NAME, #42, key:TEXT, @{2 hours ago}, or four or more digits of an id"
    if isinstance(text, str) and ".." in text:
        hint = "this is a range, and one checkpoint is wanted: name one end of it"
    elif isinstance(text, str) and "{" in text:
        hint = "a time in braces is written @{2 hours ago}, main@{yesterday 17:00} or tag:NAME@{2026-11-15}"
    return InvalidInputError(f"{shown(text)} is not a ref", code=ErrorCode.BAD_REF, hint=hint)
