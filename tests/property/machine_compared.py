"""When an answer of the real store and one of the model are the same."""

from __future__ import annotations

from holdfast.errors import HoldfastError

ONLY_REAL = ("root", "size_bytes", "stored_bytes", "position")


def attempt(call):
    try:
        return call(), None
    except HoldfastError as error:
        return None, error


def plain(checkpoint):
    """The record without what the model cannot know."""
    return {name: value for name, value in checkpoint.to_dict().items() if name not in ONLY_REAL}


def telling(said, operation):
    """Do something, and add the code of the error to a list if it is refused."""
    try:
        return operation()
    except HoldfastError as error:
        said.append(error.code)
        raise


def turned_alike(done, wanted):
    """Compare what an undo or redo returned."""
    kind, head = wanted
    return (done.kind, done.head and done.head.id) == (kind, head and head.id) and (
        head is None or written_alike(done.head, head)
    )


def written_alike(done, wanted):
    """Compare what a write returned. Its owner is the one that the writer knew; reading shows the newest."""
    owner = {"agent": None, "project": None}
    return plain(done) | owner == plain(wanted) | owner
