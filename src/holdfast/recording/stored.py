"""What a session has in store for a recorder: the last state, source by source.

A state is decoded as a whole where it can be. Where a part of it does not fit the program any more, each source is
decoded by itself, so that one that fails does not stop the others. What is carried forward is read without any types:
it comes as opaque records, which save again to the very bytes they were loaded from.

A recorder lives on the branch in use: where the Session has named none, it resumes on the session's current branch,
which the last recorder took along where it forked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.errors import (
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
)
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.state import EncodedState, decode_state
from holdfast.record import Record
from holdfast.recording.counting import Counters, counters_of, has_recorded
from holdfast.storage.records import CheckpointId, ChunkHash
from holdfast.store.recovering import newest_intact

if TYPE_CHECKING:
    from holdfast.aio import AsyncSession
    from holdfast.history.keep import Keep
    from holdfast.reports.upkeep import DamagedCheckpoint
    from holdfast.store.place import Place, Ref
    from holdfast.store.save import Writer
    from holdfast.store.session import Session

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
    branch: str
    """Where it was looked for."""
    tip: CheckpointId | None
    """The head of that branch, where that is what was asked for."""
    newer: tuple[str, ...] = ()
    """Branches on which something newer was saved."""
    counters: Counters = Counters()
    """What was counted up to that state."""


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


def take_over(session: Session, keep: Keep | None) -> None:
    """Have a session's writer look after retention, and take people along where it forks, from here on."""
    writer = writer_of(session)
    writer.leads = True
    if keep is not None:
        from holdfast.history.keep import check_keep

        writer.keep = check_keep(keep)


def read_stored(session: Session, ref: Ref, *, follow: bool) -> Stored:
    """The newest state that is whole, at or before `ref`. Nothing of the session changes: see `go_on_from`.

    Args:
        session: Where.
        ref: Which.
        follow: Whether to look on the branch in use, where the session has named none.

    Raises:
        NotFoundError: `ref` names nothing.
        IntegrityError: Nothing can be read (`nothing-intact`).
    """
    writer = writer_of(session)
    place = writer.place._replace(branch=_branch_in_use(writer) if follow else writer.branch)
    try:
        stored = _read(place, ref, writer.parts.types)
    except StateError:
        stored = _read(place, ref, _BARE)
        values, refused = {}, {}
        for name, value in stored.values.items():
            try:
                values[name] = revived(session, value)
            except StateError as error:
                refused[name] = str(error)
        stored = stored._replace(values=values, refused=refused)
    return stored._replace(
        newer=_newer_branches(session, stored), counters=counters_of(place, stored.checkpoint)
    )


def go_on_from(session: Session, stored: Stored) -> None:
    """Have the next save of a session follow what was read."""
    writer = writer_of(session)
    writer.branch = stored.branch
    if stored.tip is not None:
        # Also where an older one is served, because the tip is damaged: history goes on from the tip.
        writer.expected = stored.tip
    elif stored.checkpoint.session == session.id:
        # Asked for by name: what comes next is its child, on a branch of its own.
        writer.go_back(CheckpointId(bytes.fromhex(stored.checkpoint.id)))


def has_checkpoints(session: Session) -> bool:
    """Whether anything was ever saved there that still counts."""
    writer = writer_of(session)
    with writer.parts.backend.reader() as reader:
        return bool(reader.branches(writer.claim.session))


def has_automatic_checkpoints(session: Session) -> bool:
    """Whether a recorder has saved there by itself."""
    try:
        return has_recorded(writer_of(session).place)
    except HoldfastError:
        # It is asked for a warning before a save, which goes on: if the store cannot be used, that says so.
        return False


def read_captured(session: Session, encoded: EncodedState) -> Mapping[str, Any]:
    """A state that was captured and is not in the store yet, without types; empty where it cannot be put together."""
    fresh = {chunk.hash: chunk for chunk in encoded.chunks}
    with writer_of(session).parts.backend.reader() as reader:

        def chunks(wanted: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
            # What is not among the new ones was in the store before.
            wanted = list(wanted)
            old = [each for each in wanted if each not in fresh]
            found = reader.chunks(old) if old else {}
            return {**found, **{each: fresh[each].data for each in wanted if each in fresh}}

        try:
            return _by_source(decode_state(encoded.root, chunks, _BARE))
        except IntegrityError:
            return {}


def read_bare(session: Session, ref: Ref = "@") -> Mapping[str, Any]:
    """The newest state that is whole, as nobody else has it, and without types; empty where there is none."""
    writer = writer_of(session)
    try:
        with newest_intact(writer.place, ref, _BARE) as found:
            return _by_source(found.state)
    except (NotFoundError, IntegrityError):
        return {}


def unencodable(session: Session, state: Mapping[str, Any]) -> dict[str, str]:
    """The sources whose values cannot be encoded, and why."""
    found = {}
    for name, value in state.items():
        try:
            encode_value(value, writer_of(session).parts.types)
        except InvalidInputError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def revived(session: Session, value: Any) -> Any:
    """A value that was read without types, as the program knows it; a copy."""
    return decode_value(encode_value(value, _BARE), writer_of(session).parts.types)


def is_empty(error: NotFoundError) -> bool:
    """Whether an error says that there is no checkpoint yet, rather than that a name is wrong."""
    return error.code in (ErrorCode.SESSION_MISSING, ErrorCode.CHECKPOINT_MISSING)


def _read(place: Place, ref: Ref, types: TypeRegistry) -> Stored:
    with newest_intact(place, ref, types) as found:
        checkpoint = Checkpoint(found.row, found.owner)
        return Stored(checkpoint, _by_source(found.state), {}, found.damaged, place.branch, found.tip)


def _branch_in_use(writer: Writer) -> str:
    """The branch to resume on: the one that was named, or the session's current one."""
    return writer.current_branch() if writer.follows_current else writer.branch


def _newer_branches(session: Session, stored: Stored) -> tuple[str, ...]:
    if stored.checkpoint.session != session.id:
        return ()
    try:
        branches = session.branches()
    except IntegrityError:
        # The report is about what could be restored; that a branch is damaged, `verify` says.
        return ()
    return tuple(
        each.name for each in branches if each.name != stored.branch and each.head.seq > stored.checkpoint.seq
    )


def _by_source(state: Any) -> dict[str, Any]:
    # Whatever else somebody saved into the session has no sources.
    return (
        {name: value for name, value in state.items() if type(name) is str} if isinstance(state, dict) else {}
    )
