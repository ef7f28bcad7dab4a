"""How a person names a checkpoint, or a range of them, and which ones those are.

    range  = [ref] ".." [ref]     what the right one has behind it and the left one has not; "@" where right is left out
    ref    = base [ "~" [count] ]
    base   = "@"                  the head of the branch in use;  "@-" is "@~1"
           | branch               the head of that branch
           | "tag:" name          the newest checkpoint of the session with that tag
           | "#" number           the checkpoint with that sequence number
           | "key:" text          the checkpoint of the session with that key
           | hex                  a whole id, or a prefix of four digits or more
           | "@{" time "}"        the last one of the branch in use at that time or before
           | branch "@{" time "}" the same of another branch
           | "tag:" name "@{" time "}"   the newest with that tag at that time or before
           | ISO time             "2026-11-15T17:00" is "@{2026-11-15T17:00}"; dashes, and at least the whole date

`history.times` says what a time is; a date alone is the first moment of that day. `~3` goes three steps back along
`prev`. A word that could be several things is the branch if there is one of that name, then a time, then a prefix: a
date has dashes, so it is never a prefix, but it may be the name of a branch. A tag whose own name ends like a time in
braces can only be used through its checkpoints. A key is taken as it is, blanks, braces and all, but for a `~` with a
number at its end, which counts steps there too. `..` always makes a range where a range is possible.

A ref that names nothing, or more than one thing, is an error that says what there is instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NoReturn

from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError, shown
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.heads import find_head, get_head, missing_head
from holdfast.history.names import check_branch, check_key, check_tags
from holdfast.history.unresolved import (
    LOOK,
    SHOWN,
    ambiguous,
    missing_key,
    missing_name,
    missing_number,
    missing_tag,
)
from holdfast.history.walk import ancestors
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query

# As text: most commands and most saves name no ref, and `re` keeps what it has compiled.
_REF = r"(?s)(?P<base>key:.*?|@-?|@\{[^{}~]*\}|#[0-9]{1,18}|[^@#~][^~]*)(?:~(?P<count>[0-9]{0,9}))?"
_TIMED = r"(?s)(?P<base>.*)@\{(?P<when>[^{}]*)\}"
_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,]+ ?(?:[Zz]|[+-][0-9:]+)?)?"
_HEX = r"[0-9a-f]{4,64}"

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
    match = re.fullmatch(_REF, text) if type(text) is str else None
    if match is None:
        raise _not_a_ref(text)
    base, count = match["base"], match["count"]
    back = 0 if count is None else int(count or 1)
    # A key is taken as it is, whatever it looks like.
    timed = None if base.startswith("key:") else re.fullmatch(_TIMED, base)
    if timed is not None:
        return _parse_timed(timed["base"], timed["when"], back, text)
    if base in ("@", "@-"):
        return Ref("head", "", back + len(base) - 1, text)
    marked = _marked(base)
    if marked is not None:
        return Ref(*marked, back, text)
    if re.fullmatch(_ISO, base) and (":" in base or " " in base):
        return Ref("head", "", back, text, base)
    return Ref("name", _branch_in(base, text), back, text)


def _marked(base: str) -> tuple[Kind, str] | None:
    """What a base is that says so at its beginning."""
    if base.startswith("tag:"):
        return "tag", check_tags([base[4:]])[0]
    if base.startswith("key:"):
        return "key", check_key(base[4:])
    return ("seq", str(int(base[1:]))) if base.startswith("#") else None


def _parse_timed(base: str, when: str, back: int, text: str) -> Ref:
    if not base:
        return Ref("head", "", back, text, when)
    if base.startswith("tag:"):
        return Ref("tag", check_tags([base[4:]])[0], back, text, when)
    return Ref("name", _branch_in(base, text), back, text, when)


def _branch_in(name: str, text: str) -> str:
    try:
        return check_branch(name)
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
    parsed = _parsed(ref)
    start = _start(reader, session, branch, parsed, now)
    if not parsed.back:
        return start
    steps = 0
    for row in ancestors(reader, start, limit=parsed.back + 1):
        if steps == parsed.back:
            return row
        steps += 1
    far = "1 step" if parsed.back == 1 else f"{parsed.back} steps"
    there = {1: "is none", 2: "is only 1"}.get(steps, f"are only {steps - 1}")
    raise NotFoundError(
        f"{parsed.text} goes {far} back, and there {there} before {start.id.hex()[:12]}",
        code=ErrorCode.HISTORY_TOO_SHORT,
        hint=LOOK,
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
    """What is said of a range in which nothing is: that it is empty, and whether it has something the other way round.

    To be empty is no mistake: `main..idea` asks what `idea` has that `main` has not. But `#5..#2` most likely is one.

    Args:
        text: The range.
        has: Whether there is something in another one.
    """
    parsed = parse_range(text)
    if parsed.start is not None:
        turned = f"{parsed.end.text if parsed.end else '@'}..{parsed.start.text}"
        # A beginning before all history names nothing as an end.
        with suppress(NotFoundError):
            if has(turned):
                return f"nothing is in {text}; did you mean {turned}?"
    return f"nothing is in {text}"


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
    if type(ref) is str and len(ref) == 64 and re.fullmatch(_HEX, ref):
        # A whole id is what programs use; it is nothing else in the grammar, but for a branch of that name.
        return Ref("name", ref, 0, ref)
    return ref if isinstance(ref, Ref) else parse(ref)


def _start(reader: Reader, session: str, branch: str, ref: Ref, now: int) -> CheckpointRow:
    if ref.when is not None:
        return _at(reader, session, branch, ref, ref.when, now)
    if ref.kind == "head":
        return get_head(reader, session, branch)
    found: Sequence[CheckpointRow] = ()
    if ref.kind == "tag":
        found = reader.checkpoints(Query(session=session, tag=ref.value, limit=1))
    elif ref.kind == "seq":
        found = reader.checkpoints(Query(session=session, seq=int(ref.value), limit=1))
    elif ref.kind == "key":
        found = reader.checkpoints(Query(session=session, key=ref.value, limit=1))
    elif ref.kind == "name" and (head := find_head(reader, session, ref.value)) is not None:
        return head
    elif re.fullmatch(_ISO, ref.value):
        return _at(reader, session, branch, ref, ref.value, now)
    else:
        found = _with_prefix(reader, session, ref.value.lower())
    if len(found) > 1:
        raise ambiguous(session, ref.text, ref.value, found)
    return found[0] if found else _missing(reader, session, ref)


def _at(reader: Reader, session: str, branch: str, ref: Ref, when: str, now: int) -> CheckpointRow:
    # Few refs hold a time, and reading one takes expressions that are slow to compile.
    from holdfast.history.moments import last_at
    from holdfast.history.times import to_microseconds

    at = to_microseconds(when, now=now, what=f"{ref.text!r:.100}")
    if ref.kind == "tag":
        return last_at(reader, session, branch, at, tag=ref.value, all_branches=True)
    of = ref.value if ref.kind == "name" and ref.when is not None else branch
    return last_at(reader, session, of, at)


def _with_prefix(reader: Reader, session: str, prefix: str) -> Sequence[CheckpointRow]:
    if not re.fullmatch(_HEX, prefix):
        return []
    if len(prefix) < 64:
        return reader.checkpoints(Query(session=session, id_prefix=prefix, limit=SHOWN + 1))
    # A whole id is found directly, however many checkpoints the session has.
    row = reader.checkpoint(CheckpointId(bytes.fromhex(prefix)))
    return [row] if row is not None and row.session == session and not row.hidden else []


def _missing(reader: Reader, session: str, ref: Ref) -> NoReturn:
    if reader.session(session) is None:
        missing_head(reader, session, ref.value)
    if ref.kind == "tag":
        raise missing_tag(reader, session, ref.text, ref.value)
    if ref.kind == "seq":
        raise missing_number(reader, session, ref.text, int(ref.value))
    if ref.kind == "key":
        raise missing_key(reader, session, ref.text, ref.value)
    prefix = re.fullmatch(_HEX, ref.value.lower()) is not None
    raise missing_name(reader, session, ref.text, ref.value, prefix=prefix)


def _not_a_ref(text: object) -> InvalidInputError:
    hint = "use @, @~3, a branch, tag:NAME, #42, key:TEXT, @{2 hours ago}, or four or more digits of an id"
    if isinstance(text, str) and ".." in text:
        hint = "this is a range, and one checkpoint is wanted: name one end of it"
    elif isinstance(text, str) and "{" in text:
        hint = "a time in braces is written @{2 hours ago}, main@{yesterday 17:00} or tag:NAME@{2026-11-15}"
    return InvalidInputError(f"{shown(text)} is not a ref", code=ErrorCode.BAD_REF, hint=hint)
