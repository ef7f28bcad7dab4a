"""Which store and session a command works on, and what to say where there is none.

Only commands that save make a store. The others end with exit code 10, so that a typo in a path never leaves an empty
store behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from holdfast.errors import ErrorCode, NotFoundError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast import Keep, Session, Store
    from holdfast.cli._settings import Settings

_SHOWN = 5
"""Names in a hint: enough to recognise one's own, few enough for a line."""


@contextmanager
def open_existing(
    settings: Settings, *, damaged: bool = False, missing: str = "", timeout: float = 10.0
) -> Iterator[Store]:
    """The store that the settings name, with `damaged` also one that cannot be read; NotFoundError where none is.

    `missing` is the hint for that, where the store is named in another way than by --store. `timeout` is how many
    seconds to wait for a server that is gone, or for whoever has locked the store.
    """
    import holdfast

    try:
        with holdfast.open(
            settings.store,
            create=False,
            durability=settings.durability,
            compress=settings.compress,
            damaged=damaged,
            timeout=timeout,
        ) as store:
            yield store
    except NotFoundError as error:
        # Where damage is allowed for, the first look at the store comes only in the block.
        if error.code is ErrorCode.STORE_MISSING:
            _say_where(error, settings)
            error.hint = missing or error.hint
        raise


def _say_where(error: NotFoundError, settings: Settings) -> None:
    """Name the command that makes a store there, and say so where an empty file is in its place."""
    error.hint = "holdfast init makes a store here; --store or HOLDFAST_STORE names another one"
    if settings.store is not None:
        error.hint = "holdfast init makes a store there; --store names another one"
    if empty_file(str(error.details.get("path", ""))):
        error.args = (f"{error}: the file is empty", *error.args[1:])


def empty_file(path: str) -> bool:
    """Whether there is a file with nothing in it."""
    try:
        return os.path.isfile(path) and os.stat(path).st_size == 0  # noqa: PTH113, PTH116 - no pathlib at start
    except (OSError, ValueError):  # a path that cannot be looked at, or is none
        return False


@contextmanager
def open_or_make(
    target: str | None,
    *,
    first: Callable[[], object] = lambda: None,
    durability: Literal["power", "process"] = "power",
    compress: bool = True,
) -> Iterator[tuple[Store, str]]:
    """A store, and what to say if it was made just now; `first` is called before one is made, and may refuse."""
    import holdfast

    try:
        store, made = holdfast.open(target, create=False, durability=durability, compress=compress), ""
    except NotFoundError as error:
        if error.code is not ErrorCode.STORE_MISSING:
            raise
        first()
        # Nobody means to lose a store that way; but a file that was cut to nothing looks the same as a new one.
        was_empty = empty_file(str(error.details.get("path", "")))
        store = holdfast.open(target, durability=durability, compress=compress)
        made = "made a new store in a file that was empty:" if was_empty else "made a new store:"
    with store:
        yield store, made


def session_of(
    store: Store, settings: Settings, *, agent: str | None = None, project: str | None = None
) -> Session:
    """The session that the settings name, on the branch they name or the one in use there."""
    branch = store.current_branch(settings.session) if settings.branch is None else settings.branch
    return store.session(settings.session, branch=branch, agent=agent, project=project)


def retention_of(settings: Settings) -> Keep | None:
    """What the settings say about automatic retention; a policy that cannot be carried out is refused."""
    if not settings.keep:
        return None
    from holdfast import Keep

    return Keep(**settings.keep)


def missing_session(store: Store, session: str, option: str = "--session") -> NotFoundError:
    """The error for a session that is not in the store, naming what is; `option` is where it was asked for."""
    known = [info.id for info in store.sessions()]
    near = close_names(session, known)
    if known:
        listed = ", ".join(known[-_SHOWN:]) + (" and more" if len(known) > _SHOWN else "")
        otherwise = f"{option} chooses one of: {listed}"
    else:
        otherwise = "the store is empty: holdfast create saves a first checkpoint"
    return NotFoundError(
        f"there is no session {session!r} in {store.url}",
        code=ErrorCode.SESSION_MISSING,
        hint=did_you_mean(near) or otherwise,
        session=session,
        option=option,
        candidates=near,
    )


def why_empty(store: Store, settings: Settings | None) -> str:
    """Why a session has no checkpoint: all were deleted, or none was saved. Without `settings`: of all sessions."""
    if settings is not None and settings.session in (each.id for each in store.sessions()):
        try:
            session_of(store, settings).checkpoint()
        except NotFoundError as error:
            if error.code is ErrorCode.CHECKPOINT_MISSING:
                from holdfast.cli._words import in_shell_words

                return f"{error}: {in_shell_words(error.hint)}"
    return "no checkpoints yet: holdfast create MESSAGE saves one"


@contextmanager
def naming_candidates(store: Store, settings: Settings) -> Iterator[None]:
    """Where the session itself is missing, say so in the words of the command line, with its near names."""
    try:
        yield
    except NotFoundError as error:
        if error.code is ErrorCode.SESSION_MISSING:
            if "option" in error.details:  # in these words already
                raise
            # Not always the one in use: a command may ask for another one as well.
            raise missing_session(store, str(error.details.get("session", settings.session))) from error
        raise
