"""Which store and session a command works on, and what to say where there is none.

Only commands that save make a store. The others end with exit code 10, so that a typo in a path never leaves an empty
store behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli._suggest import close_names, did_you_mean
from holdfast.errors import ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Session, Store
    from holdfast.cli._settings import Settings

_SHOWN = 5
"""Names in a hint: enough to recognise one's own, few enough for a line."""


@contextmanager
def open_existing(settings: Settings) -> Iterator[Store]:
    """The store that the settings name; NotFoundError where there is none."""
    import holdfast

    try:
        store = holdfast.open(settings.store, create=False)
    except NotFoundError as error:
        if error.code is ErrorCode.STORE_MISSING:
            error.hint = "holdfast init makes a store here; --store or HOLDFAST_STORE names another one"
        raise
    with store:
        yield store


@contextmanager
def open_or_make(
    target: str | None, *, first: Callable[[], object] = lambda: None
) -> Iterator[tuple[Store, bool]]:
    """A store, and whether it was made just now; `first` is called before one is made, and may refuse."""
    import holdfast

    try:
        store, made = holdfast.open(target, create=False), False
    except NotFoundError as error:
        if error.code is not ErrorCode.STORE_MISSING:
            raise
        first()
        store, made = holdfast.open(target), True
    with store:
        yield store, made


def session_of(store: Store, settings: Settings, **labels: str | None) -> Session:
    """The session and branch that the settings name. Nothing is read yet."""
    return store.session(settings.session, branch=settings.branch or "main", **labels)


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
