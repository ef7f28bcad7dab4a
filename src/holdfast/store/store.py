"""Store: everything in one place, and what can be asked across sessions.

It joins a backend with the type registry and the clock, and hands out Sessions. It is safe to share between threads; a
process that forks may go on using it on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.history.names import check_label
from holdfast.objects.registry import GLOBAL
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import Query, SessionRow, StoreStats
from holdfast.store.changing import session_of
from holdfast.store.composition import Composition, system_clock
from holdfast.store.draft import check_status, check_step, check_trigger
from holdfast.store.session import Session, check_limit


class SessionInfo(NamedTuple):
    """A session as it is listed."""

    id: str
    agent: str | None
    project: str | None
    created_at: datetime
    saves: int
    """How many checkpoints were ever saved in it."""


class Store:
    """A place that keeps checkpoints; made by `holdfast.open`, or around a backend of your own.

    Args:
        backend: Where bytes live.
        types: Classes whose instances may be part of a state, beside those registered with `@holdfast.register`.
        app_version: The version of the application, written into each checkpoint.
        clock: Microseconds since 1970 UTC; for tests.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        types: Iterable[type] = (),
        app_version: str | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._backend = backend
        version = check_label(app_version, "application version")
        self._parts = Composition(backend, GLOBAL.child(types), version, clock)

    @property
    def url(self) -> str:
        """Where the store is, without any secret."""
        return self._backend.url

    def session(
        self,
        id: str = "default",  # noqa: A002 - the glossary's word
        *,
        agent: str | None = None,
        project: str | None = None,
        branch: str = "main",
    ) -> Session:
        """A new Session object: one writer on one branch. Nothing is read or written until it is used."""
        return Session(self._parts, id, agent=agent, project=project, branch=branch)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> list[SessionInfo]:
        """List the sessions, oldest first."""
        with self._reader() as reader:
            rows = reader.sessions(agent=agent, project=project)
        return [
            SessionInfo(row.id, row.agent, row.project, moment(row.created_at), row.last_seq) for row in rows
        ]

    def projects(self) -> list[str]:
        """List the projects that sessions belong to, by name."""
        with self._reader() as reader:
            return sorted({row.project for row in reader.sessions() if row.project is not None})

    def find(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        *,
        session: str | None = None,
        branch: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        tag: str | None = None,
        status: str | None = None,
        trigger: str | None = None,
        step: int | None = None,
        key: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: Checkpoint | None = None,
        limit: int | None = None,
    ) -> list[Checkpoint]:
        """Find checkpoints by what is known about them, newest first, without touching any state.

        Args:
            session: Of this session only.
            branch: Saved on this branch.
            agent: Of sessions of this agent.
            project: Of sessions of this project.
            tag: With this label.
            status: With this status.
            trigger: With this trigger; `auto` finds every `auto:<event>` too.
            step: With this step number.
            key: With this key.
            since: Saved at or after; a datetime or ISO text, local time where it names no zone.
            until: Saved at or before.
            metadata: Whose metadata has these values; nested dicts go deeper, everything else must be equal.
            before: Only what came before this one: the last of a page gives the next page.
            limit: At most so many.
        """
        _check_filters(session=session, branch=branch, agent=agent, project=project, tag=tag, key=key)
        if before is not None and not isinstance(before, Checkpoint):
            raise _bad_filter("before", before, "pass a Checkpoint: the last one of the page before")
        query = Query(
            session=session,
            branch=branch,
            agent=agent,
            project=project,
            tag=tag,
            status=None if status is None else check_status(status),
            trigger=None if trigger is None else check_trigger(trigger),
            step=check_step(step),
            key=key,
            since=None if since is None else _microseconds(since, "since"),
            until=None if until is None else _microseconds(until, "until"),
            metadata=jsontext.conditions(metadata),
            before_position=None if before is None else before.position,
            limit=check_limit(limit),
        )
        with self._reader() as reader:
            rows = reader.checkpoints(query)
            owners: dict[str, SessionRow] = {}
            for row in rows:
                if row.session not in owners:
                    owners[row.session] = session_of(reader, row)
        return [Checkpoint(row, owners[row.session]) for row in rows]

    def stats(self) -> StoreStats:
        """Count what is in the store."""
        with self._reader() as reader:
            return reader.stats()

    def backup(self, path: str | Path) -> Path:
        """Write a consistent copy of the whole store to a new file, beside running writers; return its path."""
        target = Path(path)
        self._backend.backup(target)
        return target

    def close(self) -> None:
        """Let go of the store. Closing twice is fine; using it afterwards is a StateError."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reader(self) -> AbstractContextManager[Reader]:
        return self._backend.reader()

    def __repr__(self) -> str:
        return f"<Store {self.url}>"


def _check_filters(**filters: object) -> None:
    for name, value in filters.items():
        if value is not None and type(value) is not str:
            raise _bad_filter(name, value, f"pass {name} as a str")


def _bad_filter(name: str, value: object, hint: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} cannot be a {type(value).__name__}", code=ErrorCode.BAD_ARGUMENT, hint=hint, argument=name
    )


def _microseconds(when: datetime | str, name: str) -> int:
    try:
        parsed = datetime.fromisoformat(when) if isinstance(when, str) else when
        # A time without a zone is the local time of the person who wrote it; astimezone() reads it so.
        delta = parsed.astimezone() - moment(0)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidInputError(
            f"{name} cannot be {when!r:.60}: {error}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass a datetime, or ISO text such as 2026-11-15T17:00:00+01:00",
        ) from error
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
