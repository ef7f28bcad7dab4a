"""How a person names a checkpoint, and which one that is.

    ref    = base [ "~" [count] ]
    base   = "@"            the head of the branch in use;  "@-" is "@~1"
           | branch         the head of that branch
           | "tag:" name    the newest checkpoint of the session with that tag
           | "#" number     the checkpoint with that sequence number
           | hex            a whole id, or a prefix of four digits or more

A word that is both a branch and a prefix is the branch. `~3` goes three steps back along `prev`. A ref that names
nothing, or more than one thing, is an error that says what there is instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, NoReturn

from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.names import check_branch, check_tags
from holdfast.history.walk import ancestors
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query

_REF = re.compile(
    r"(?P<base>@|tag:[^~]+|#[0-9]{1,18}|[^@#~][^~]*)(?P<dash>(?<=@)-)?(?P<back>~(?P<count>[0-9]{0,9}))?"
)
_HEX = re.compile(r"[0-9a-f]{4,64}")
_SHOWN = 10
"""Candidates listed for an ambiguous prefix: enough to choose from, few enough to read."""

Kind = Literal["head", "tag", "seq", "id", "name"]


class Ref(NamedTuple):
    """A parsed ref: where to start, and how many steps to go back from there."""

    kind: Kind
    value: str
    back: int
    text: str


def parse(text: str) -> Ref:
    """Parse the text of a ref.

    Raises:
        InvalidInputError: It is not in the grammar (`bad-ref`).
    """
    match = _REF.fullmatch(text) if type(text) is str else None
    if match is None:
        raise _not_a_ref(text)
    base, count = match["base"], match["count"]
    back = 1 if match["dash"] else 0
    if match["back"]:
        back += int(count) if count else 1
    if base == "@":
        return Ref("head", "", back, text)
    if base.startswith("tag:"):
        return Ref("tag", check_tags([base[4:]])[0], back, text)
    if base.startswith("#"):
        return Ref("seq", str(int(base[1:])), back, text)
    try:
        return Ref("name", check_branch(base), back, text)
    except InvalidInputError as error:
        raise _not_a_ref(text) from error


def resolve(reader: Reader, session: str, branch: str, ref: str | Checkpoint) -> CheckpointRow:
    """The row that `ref` names in `session`, with `branch` in use.

    Raises:
        NotFoundError: It names nothing that is there, or more than one thing.
        InvalidInputError: It is not a ref.
    """
    parsed = Ref("id", ref.id, 0, ref.id) if isinstance(ref, Checkpoint) else parse(ref)
    start = _start(reader, session, branch, parsed)
    if not parsed.back:
        return start
    steps = 0
    for row in ancestors(reader, start, limit=parsed.back + 1):
        if steps == parsed.back:
            return row
        steps += 1
    raise NotFoundError(
        f"{parsed.text} goes {parsed.back} steps back, and there are only {steps - 1} before {start.id.hex()[:12]}",
        code=ErrorCode.HISTORY_TOO_SHORT,
        hint="s.log() (holdfast list) shows what there is",
        session=session,
        ref=parsed.text,
    )


def find_head(reader: Reader, session: str, branch: str) -> CheckpointRow | None:
    """The head of a branch, or None where the session or the branch does not exist."""
    found = reader.branch(session, branch)
    if found is None:
        return None
    return row_of(reader, found.head, f"the head of branch {branch!r} of session {session!r}")


def row_of(reader: Reader, checkpoint: CheckpointId, what: str) -> CheckpointRow:
    """The row of an id that must be there: `what` says who claims so."""
    row = reader.checkpoint(checkpoint)
    if row is None or row.hidden:
        raise IntegrityError.row_damaged(what, why=f"checkpoint {checkpoint.hex()} is not in the store")
    return row


def _start(reader: Reader, session: str, branch: str, ref: Ref) -> CheckpointRow:
    if ref.kind == "head":
        head = find_head(reader, session, branch)
        return head if head is not None else missing_head(reader, session, branch)
    if ref.kind == "tag":
        rows = reader.checkpoints(Query(session=session, tag=ref.value, limit=1))
        return rows[0] if rows else _missing(reader, session, ref, f"no checkpoint has the tag {ref.value!r}")
    if ref.kind == "seq":
        rows = reader.checkpoints(Query(session=session, seq=int(ref.value), limit=1))
        return rows[0] if rows else _missing(reader, session, ref, f"there is no checkpoint #{ref.value}")
    head = find_head(reader, session, ref.value) if ref.kind == "name" else None
    return head if head is not None else _by_id(reader, session, ref)


def _by_id(reader: Reader, session: str, ref: Ref) -> CheckpointRow:
    prefix = ref.value.lower()
    if not _HEX.fullmatch(prefix):
        return _missing(reader, session, ref, f"there is no branch {ref.value!r}")
    rows = _with_prefix(reader, session, prefix)
    if len(rows) == 1:
        return rows[0]
    if not rows:
        return _missing(reader, session, ref, f"there is no branch and no checkpoint {ref.value!r}")
    shown = [f"{row.id.hex()[:16]} (#{row.seq})" for row in rows[:_SHOWN]]
    raise NotFoundError(
        f"{ref.value!r} could be {', '.join(shown)}" + (" and more" if len(rows) > _SHOWN else ""),
        code=ErrorCode.REF_AMBIGUOUS,
        hint="give more digits of the id",
        session=session,
        ref=ref.text,
        candidates=[row.id.hex() for row in rows[:_SHOWN]],
    )


def _with_prefix(reader: Reader, session: str, prefix: str) -> Sequence[CheckpointRow]:
    if len(prefix) < 64:
        return reader.checkpoints(Query(session=session, id_prefix=prefix, limit=_SHOWN + 1))
    # A whole id is found directly, however many checkpoints the session has.
    row = reader.checkpoint(CheckpointId(bytes.fromhex(prefix)))
    return [row] if row is not None and row.session == session and not row.hidden else []


def missing_head(reader: Reader, session: str, branch: str) -> NoReturn:
    """Raise the NotFoundError that says why a branch has no head, and what there is instead."""
    if reader.session(session) is None:
        raise NotFoundError(
            f"session {session!r} has no checkpoint yet",
            code=ErrorCode.SESSION_MISSING,
            hint=_near(session, (each.id for each in reader.sessions()), "save() makes the first one"),
            session=session,
        )
    names = [each.name for each in reader.branches(session)]
    if not names:
        raise NotFoundError(
            f"every checkpoint of session {session!r} was deleted",
            code=ErrorCode.CHECKPOINT_MISSING,
            hint="save() starts it again",
            session=session,
        )
    raise NotFoundError(
        f"session {session!r} has no branch {branch!r}",
        code=ErrorCode.BRANCH_MISSING,
        hint=_near(branch, names, f"its branches are: {', '.join(names[:_SHOWN])}"),
        session=session,
        branch=branch,
    )


def _missing(reader: Reader, session: str, ref: Ref, why: str) -> NoReturn:
    if reader.session(session) is None:
        missing_head(reader, session, ref.value)
    hint = "s.log() (holdfast list) shows what there is"
    if ref.kind in ("name", "id"):
        elsewhere = _elsewhere(reader, ref.value)
        if ref.value.isdecimal():
            hint = f"for the checkpoint with that number write '#{ref.value}', with quotes in a shell"
        if elsewhere is not None:
            why, hint = (
                f"{why} in it: it belongs to session {elsewhere!r}",
                f"use store.session({elsewhere!r})",
            )
        else:
            hint = _near(ref.value, (each.name for each in reader.branches(session)), hint)
    raise NotFoundError(
        f"{ref.text!r} names nothing in session {session!r}: {why}",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint=hint,
        session=session,
        ref=ref.text,
    )


def _elsewhere(reader: Reader, text: str) -> str | None:
    prefix = text.lower()
    if not _HEX.fullmatch(prefix):
        return None
    rows = reader.checkpoints(Query(id_prefix=prefix, limit=1))
    return rows[0].session if rows else None


def _near(word: str, known: Iterable[str], otherwise: str) -> str:
    # difflib is slow to import and only needed on the way to an error.
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else otherwise


def _not_a_ref(text: object) -> InvalidInputError:
    shown = text if isinstance(text, str) else type(text).__name__
    return InvalidInputError(
        f"{shown!r:.100} is not a ref",
        code=ErrorCode.BAD_REF,
        hint="use @, @~3, a branch, tag:NAME, #42, or four or more digits of an id",
    )
