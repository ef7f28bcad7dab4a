"""What a session has in store for a recorder: the last state, source by source.

A state is decoded as a whole where it can be. Where a part of it does not fit the program any more, each source is
decoded by itself, so that one that fails does not stop the others. What is carried forward is read without any types:
it comes as opaque records, which save again to the very bytes they were loaded from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.errors import ErrorCode, IntegrityError, InvalidInputError, NotFoundError, StateError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec import decode_value, encode_value
from holdfast.objects.registry import TypeRegistry
from holdfast.record import Record
from holdfast.store.recovering import newest_intact

if TYPE_CHECKING:
    from holdfast.aio.session import AsyncSession
    from holdfast.history.keep import Keep
    from holdfast.store.session import Ref, Session
    from holdfast.store.verifying import DamagedCheckpoint
    from holdfast.store.writer import Writer

S = TypeVar("S")
T = TypeVar("T")

_BARE: Final = TypeRegistry()
"""Knows no type: everything that is not plain comes back as an opaque record."""


class Stored(Record):
    """A checkpoint that is whole, and its state by source."""

    checkpoint: Checkpoint
    values: Mapping[str, Any]
    refused: Mapping[str, str]
    """Sources whose state could not be decoded, and why."""
    passed_over: tuple[DamagedCheckpoint, ...]


def writer_of(session: Session) -> Writer:
    """The writer of a session: the recorder is its friend, as the async façade is."""
    return session._writer  # noqa: SLF001 - see above


def check_session(session: S, wanted: type[S]) -> S:
    """Return `session` if it is one that this kind of recorder saves into."""
    if isinstance(session, wanted):
        return session
    raise InvalidInputError(
        f"a recorder of this kind saves into a {wanted.__name__}, not into {session!r:.60}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="Recorder takes store.session(...) of holdfast.open(), AsyncRecorder that of holdfast.aopen()",
    )


def inner_session(session: AsyncSession) -> Session:
    """The session that an AsyncSession hands its work to."""
    return session._session  # noqa: SLF001 - see above


async def write_in_turn(session: AsyncSession, write: Callable[[], T]) -> T:
    """Run a call in a worker thread, after all other writes of that session that were called before."""
    return await session._written(write)  # noqa: SLF001 - see above


def keep_with(session: Session, keep: Keep) -> None:
    """Have a session's writer look after retention from here on."""
    from holdfast.history.keep import check_keep

    writer_of(session).keep = check_keep(keep)


def read_stored(session: Session, ref: Ref) -> Stored:
    """The newest state that is whole, at or before `ref`; the next save of the session goes on from there.

    Raises:
        NotFoundError: `ref` names nothing.
        IntegrityError: Nothing can be read (`nothing-intact`).
    """
    writer = writer_of(session)
    try:
        return _read(writer, ref, writer.parts.types)
    except StateError:
        stored = _read(writer, ref, _BARE)
    values, refused = {}, {}
    for name, value in stored.values.items():
        try:
            values[name] = revived(session, value)
        except StateError as error:
            refused[name] = str(error)
    return stored._replace(values=values, refused=refused)


def read_bare(session: Session, ref: Ref = "@") -> Mapping[str, Any]:
    """The newest state that is whole, as nobody else has it, and without types; empty where there is none."""
    writer = writer_of(session)
    try:
        with newest_intact(writer.place, ref, _BARE) as found:
            return _by_source(found.state)
    except (NotFoundError, IntegrityError):
        return {}


def revived(session: Session, value: Any) -> Any:
    """A value that was read without types, as the program knows it; a copy."""
    return decode_value(encode_value(value, _BARE), writer_of(session).parts.types)


def is_empty(error: NotFoundError) -> bool:
    """Whether an error says that there is no checkpoint yet, rather than that a name is wrong."""
    return error.code in (ErrorCode.SESSION_MISSING, ErrorCode.CHECKPOINT_MISSING)


def _read(writer: Writer, ref: Ref, types: TypeRegistry) -> Stored:
    with newest_intact(writer.place, ref, types) as found:
        if found.tip is not None:
            # Also where an older one is served, because the tip is damaged: history goes on from the tip.
            writer.expected = found.tip
        elif found.row.session == writer.claim.session:
            # Asked for by name: what comes next is its child, on a branch of its own.
            writer.expected = found.row.id
        return Stored(Checkpoint(found.row, found.owner), _by_source(found.state), {}, found.damaged)


def _by_source(state: Any) -> dict[str, Any]:
    # Whatever else somebody saved into the session has no sources.
    return (
        {name: value for name, value in state.items() if type(name) is str} if isinstance(state, dict) else {}
    )
