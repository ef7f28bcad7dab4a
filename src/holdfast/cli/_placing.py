"""Which branch a checkpoint is on, here and now.

A checkpoint says which branch it was saved on, for good. That branch may have been renamed or deleted since, and after
an import its checkpoints may be on `main-1` while `main` is another line. People are told where a checkpoint is;
programs get what it says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from holdfast.errors import IntegrityError

if TYPE_CHECKING:
    from holdfast import Checkpoint, Store

_PAGE: Final = 1000
_LEAST: Final = 64
"""Rows per question. The first one asks for as many as are shown, which are the newest as a rule."""


def branches_here(store: Store, checkpoints: Iterable[Checkpoint]) -> dict[str, str | None]:
    """The branch that leads to each checkpoint of one session, by id; None where there is none.

    Of several it is the one that the checkpoint was saved on, if that is among them. Only what is as new as the oldest
    of these checkpoints is read.
    """
    shown = {each.id: each for each in checkpoints}
    if not shown:
        return {}
    session = next(iter(shown.values())).session
    oldest = min(each.seq for each in shown.values())
    found: dict[str, str | None] = dict.fromkeys(shown)
    try:
        leading = _heads(store, session)
        size = min(_PAGE, max(_LEAST, len(shown) + 1))
        page = store.find(session=session, limit=size)
        while page:
            for each in page:
                names = leading.pop(each.id, frozenset())
                if names and each.prev is not None:
                    leading[each.prev] = leading.get(each.prev, frozenset()) | names
                if names and each.id in shown:
                    found[each.id] = _chosen(each, names)
            if len(page) < size or page[-1].seq <= oldest:
                break
            size = _PAGE
            page = store.find(session=session, before=page[-1], limit=size)
    except IntegrityError:
        # A list is shown of a damaged store too: then with what the checkpoints say of themselves.
        return {each.id: each.branch for each in shown.values()}
    return found


def label(checkpoint: Checkpoint, here: Mapping[str, str | None]) -> str:
    """What stands in the column BRANCH; in brackets, one that it was saved on, and that does not lead to it."""
    return here.get(checkpoint.id, checkpoint.branch) or f"({checkpoint.branch})"


def told(checkpoint: Checkpoint, here: Mapping[str, str | None]) -> str:
    """The same in a sentence."""
    branch = here.get(checkpoint.id, checkpoint.branch)
    if branch is None:
        return f"on no branch (saved on {checkpoint.branch})"
    return f"branch {branch}" + (f" (saved on {checkpoint.branch})" if branch != checkpoint.branch else "")


def _heads(store: Store, session: str) -> dict[str, frozenset[str]]:
    heads: dict[str, frozenset[str]] = {}
    for each in store.session(session).branches():
        heads[each.head.id] = heads.get(each.head.id, frozenset()) | {each.name}
    return heads


def _chosen(checkpoint: Checkpoint, names: frozenset[str]) -> str:
    # The shortest first: main-2 before main-10.
    return checkpoint.branch if checkpoint.branch in names else min(names, key=lambda name: (len(name), name))
