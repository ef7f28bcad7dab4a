"""Which store and session a command works on, and what to say where there is none.

Only commands that save make a store. The others end with exit code 10, so that a typo in a path never leaves an empty
store behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from holdfast.cli._suggest import close_names, did_you_mean
from holdfast.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Keep, Session, Store
    from holdfast.cli._settings import Settings

_SHOWN = 5
"""Names in a hint: enough to recognise one's own, few enough for a line."""


@contextmanager
def open_existing(settings: Settings, *, damaged: bool = False) -> Iterator[Store]:
    """The store that the settings name, with `damaged` also one that cannot be read; NotFoundError where none is."""
    import holdfast

    try:
        store = holdfast.open(settings.store, create=False, durability=settings.durability, damaged=damaged)
    except NotFoundError as error:
        if error.code is ErrorCode.STORE_MISSING:
            error.hint = "holdfast init makes a store here; --store or HOLDFAST_STORE names another one"
        raise
    with store:
        yield store


@contextmanager
def open_or_make(
    target: str | None,
    *,
    first: Callable[[], object] = lambda: None,
    durability: Literal["power", "process"] = "power",
) -> Iterator[tuple[Store, bool]]:
    """A store, and whether it was made just now; `first` is called before one is made, and may refuse."""
    import holdfast

    try:
        store, made = holdfast.open(target, create=False, durability=durability), False
    except NotFoundError as error:
        if error.code is not ErrorCode.STORE_MISSING:
            raise
        first()
        store, made = holdfast.open(target, durability=durability), True
    with store:
        yield store, made


def session_of(
    store: Store, settings: Settings, *, agent: str | None = None, project: str | None = None
) -> Session:
    """The session that the settings name, on the branch they name or the one in use there."""
    branch = settings.branch
    if branch is None:
        from holdfast.store.surfaces import current_branch

        branch = current_branch(store, settings.session)
    return store.session(settings.session, branch=branch, agent=agent, project=project)


def retention_of(settings: Settings) -> Keep | None:
    """What the settings say about automatic retention; a policy that cannot be carried out is refused."""
    if not settings.keep:
        return None
    from holdfast import Keep

    return Keep(**settings.keep)


def missing_session(store: Store, session: str) -> NotFoundError:
    """The error for a session that is not in the store, naming what is."""
    known = [info.id for info in store.sessions()]
    near = close_names(session, known)
    if known:
        listed = ", ".join(known[-_SHOWN:]) + (" and more" if len(known) > _SHOWN else "")
        otherwise = f"--session chooses one of: {listed}"
    else:
        otherwise = "the store is empty: holdfast create saves a first checkpoint"
    return NotFoundError(
        f"there is no session {session!r} in {store.url}",
        code=ErrorCode.SESSION_MISSING,
        hint=did_you_mean(near) or otherwise,
        session=session,
        candidates=near,
    )


@contextmanager
def naming_candidates(store: Store, settings: Settings) -> Iterator[None]:
    """Where the session itself is missing, say so in the words of the command line, with its near names."""
    try:
        yield
    except NotFoundError as error:
        if error.code is ErrorCode.SESSION_MISSING:
            raise missing_session(store, settings.session) from error
        raise
