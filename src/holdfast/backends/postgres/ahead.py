"""What a load asks first: about the branches of a session, one checkpoint, and the root of its state.

A load most often has a new connection to itself, whose server process has planned nothing yet, so that the time goes
into planning. Each of these statements therefore looks into as few tables as it can, and names the rest in
subqueries: a join has many orders that are all weighed. A checkpoint that is named by its whole id needs no branch, and
is asked for by that alone: branches come with the number of their session, which tells whether it is one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdfast.backends.postgres.asking import Statement, Value
from holdfast.backends.postgres.chunks import root_of
from holdfast.storage.records import ChunkHash

Question = tuple[Statement, Sequence[Value]]

FEW_BRANCHES: Final = 16
"""So many of a session are fetched with the first one that is asked for. A load asks for two or three names, one after
the other, and a session seldom has more."""

_WHOLE_ID: Final = "[0-9a-f]{64}"

_SESSION = "(SELECT number FROM sessions WHERE id = %s)"
_HEAD = f"(SELECT head FROM branches WHERE session = {_SESSION} AND name = %s)"  # noqa: S608 - constants
# One more than a few, to tell.
_SELECT_BRANCHES = Statement(
    "branches",
    f"SELECT name, head, moved_at, seal, session FROM branches WHERE session = {_SESSION} "  # noqa: S608 - constants
    f"LIMIT {FEW_BRANCHES + 1}",
    of_views=True,
)
# The fields of `rows.CHECKPOINT_FIELDS`.
_CHECKPOINT = "SELECT %s::text, c.* FROM checkpoints AS c WHERE c.id = "
_SELECT_NAMED = Statement("checkpoint", f"{_CHECKPOINT}%b", of_views=True)
_SELECT_HEAD = Statement("head", f"{_CHECKPOINT}{_HEAD}", of_views=True)
_ROOT = "(SELECT root FROM checkpoints WHERE id = {} AND root IS DISTINCT FROM %b)"
_SELECT_ROOT_OF_NAMED = Statement("root", root_of(_ROOT.format("%b")), of_views=True)
_SELECT_ROOT_OF_HEAD = Statement("root_of_head", root_of(_ROOT.format(_HEAD)), of_views=True)


def about_branch(session: str, name: str) -> list[Question]:
    """A few branches of a session; and the checkpoint that is asked for next, the head of the one of that name.

    Where the name is a whole id, it is the checkpoint with that id, of any session. There may be a branch of that name,
    too: then its head is asked for when it is known.
    """
    meant = _meant_by(name)
    checkpoint: Question = (
        (_SELECT_HEAD, [session, session, name]) if meant is None else (_SELECT_NAMED, [session, meant])
    )
    return [(_SELECT_BRANCHES, [session]), checkpoint]


def about_root(session: str, name: str, known: ChunkHash | None) -> Question:
    """The root of that checkpoint with all that it stands on; nothing where it is `known`."""
    meant = _meant_by(name)
    if meant is None:
        return _SELECT_ROOT_OF_HEAD, [session, name, known]
    return _SELECT_ROOT_OF_NAMED, [meant, known]


def _meant_by(name: str) -> bytes | None:
    """The id that a name is, if it is one as a whole."""
    return bytes.fromhex(name) if re.fullmatch(_WHOLE_ID, name) else None
