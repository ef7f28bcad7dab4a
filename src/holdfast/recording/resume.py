"""Going on from a checkpoint: what is stored for a recorder, source by source, and the report of a resume.

A state is decoded as a whole where it can be. Where a part of it does not fit the program any more, each source is
decoded by itself, so that one that fails does not stop the others. What is carried forward is read without any types:
it comes as opaque records, which save again to the very bytes they were loaded from.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from holdfast.errors import (
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
    bad_argument,
)
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.record import Record
from holdfast.recording.sources import Adapter, Source, Sources
from holdfast.reports.upkeep import DamagedCheckpoint
from holdfast.storage.records import CheckpointId, SessionRow
from holdfast.store.repair import newest_intact

if TYPE_CHECKING:
    from holdfast.store.place import Ref
    from holdfast.store.save import Writer
    from holdfast.store.session import Session

S = TypeVar("S")

Outcome = Literal["restored", "missing", "failed", "absent"]

RESUME_VARIABLE: Final = "HOLDFAST_RESUME"
_BARE: Final = TypeRegistry()
"""Knows no type: everything that is not plain comes back as an opaque record."""
_NEAR: Final = 300
"""How many checkpoints are looked at for the counters of a state."""


class Counters(Record):
    """What was counted up to a state; None where that is not known."""

    step: int | None = None
    beats: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    taken_from: str | None = None
    """The checkpoint that has them, where that is another one than the state was read from."""


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


@dataclass(frozen=True, slots=True)
class SourceOutcome:
    """What became of one source.

    Attributes:
        outcome: `restored`; `missing`: the checkpoint has nothing for it, and it was left as it is; `failed`: it could
            not take its state, which is carried forward; `absent`: declared, but not there; carried forward as well.
        message: Why it failed.
    """

    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResumeReport:
    """What `resume` found and did.

    Attributes:
        checkpoint: Where the agent goes on from. None where all that there is is damaged: a cold start.
        age_seconds: How old that is.
        steps_recovered: Its step: the number of the last step that need not be done again.
        beats_recovered: Its beats. None where none were counted.
        counted_on: The id of the checkpoint that the step and the beats were found on, where that is another one with
            the same state: a person's note, a restore and a fork have none of their own.
        sources: What became of each source, in the order in which they were connected.
        unclaimed: What the checkpoint has and no source asked for; the next save leaves it out.
        passed_over: Damaged checkpoints that an older one was served for, newest first.
        newer_branches: Other branches of the session on which something newer was saved.
        reason: Why nothing could be restored; empty where something was.
    """

    checkpoint: Checkpoint | None
    age_seconds: float = 0.0
    steps_recovered: int | None = None
    beats_recovered: int | None = None
    counted_on: str | None = None
    sources: Mapping[str, SourceOutcome] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()
    passed_over: tuple[DamagedCheckpoint, ...] = ()
    newer_branches: tuple[str, ...] = ()
    reason: str = ""

    @property
    def complete(self) -> bool:
        """Whether every source that is there got its state back."""
        return self.checkpoint is not None and all(
            each.outcome in ("restored", "absent") for each in self.sources.values()
        )

    def named(self, outcome: Outcome) -> tuple[str, ...]:
        """The sources with this outcome."""
        return tuple(name for name, each in self.sources.items() if each.outcome == outcome)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data, the same on every surface."""
        return {
            "checkpoint": None if self.checkpoint is None else self.checkpoint.to_dict(),
            "age_seconds": self.age_seconds,
            "steps_recovered": self.steps_recovered,
            "beats_recovered": self.beats_recovered,
            "counted_on": self.counted_on,
            "complete": self.complete,
            "sources": {
                name: {"outcome": each.outcome, "message": each.message}
                for name, each in self.sources.items()
            },
            "unclaimed": list(self.unclaimed),
            "passed_over": [{"id": each.id, "seq": each.seq, "why": each.why} for each in self.passed_over],
            "newer_branches": list(self.newer_branches),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        if self.checkpoint is None:
            return f"cold start: {self.reason}"
        said = f" {self.checkpoint.message!r}" if self.checkpoint.message else ""
        parts = [
            f"resumed from #{self.checkpoint.seq}{said} of {self.checkpoint.created_at:%Y-%m-%d %H:%M:%S} UTC"
        ]
        for outcome in ("restored", "missing", "failed", "absent"):
            names = [
                f"{name} ({self.sources[name].message})" if self.sources[name].message else name
                for name in self.named(outcome)
            ]
            parts += [f"{outcome}: {', '.join(names)}"] if names else []
        if self.unclaimed:
            parts.append(f"unclaimed: {', '.join(self.unclaimed)}")
        if self.steps_recovered is None and self.beats_recovered is None:
            parts.append("no step or beat is known for it: counting begins at 0")
        elif self.counted_on is not None:
            parts.append(f"counted on from {self.counted_on[:12]}, which has the same state")
        if self.passed_over:
            passed = ", ".join(f"#{each.seq or '?'}" for each in self.passed_over)
            parts.append(f"passed over, because damaged: {passed}")
        if self.newer_branches:
            parts.append(f"newer, and elsewhere: {', '.join(self.newer_branches)}")
        return "; ".join(parts)


class Plan:
    """What is to be done with a stored state: everything is decoded and checked before anything is applied.

    Who calls `restore`, and whether it is awaited, is up to the recorder. One that fails does not stop the others.
    """

    def __init__(self, sources: Sources, stored: Stored) -> None:
        self._stored = stored
        self.outcomes: dict[str, SourceOutcome] = {}
        self.ready: list[tuple[str, Source, Any]] = []
        """Sources and the decoded state of each, in the order in which to restore them."""
        for name, source in sources.items():
            # Now, for its place in the report.
            self.outcomes[name] = SourceOutcome("restored")
            if source is None:
                self.outcomes[name] = SourceOutcome("absent")
            elif name in stored.refused:
                self.failed(name, stored.refused[name])
            elif name not in stored.values:
                self.outcomes[name] = SourceOutcome("missing")
            else:
                try:
                    if isinstance(source, Adapter):
                        source.prepare(stored.values[name])
                    self.ready.append((name, source, stored.values[name]))
                except Exception as error:  # noqa: BLE001 - a validator of the application: reported
                    self.failed(name, error)

    def failed(self, name: str, error: Exception | str) -> None:
        """A source could not take its state."""
        message = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self.outcomes[name] = SourceOutcome("failed", message)

    @property
    def failures(self) -> dict[str, str]:
        """The sources that failed, and why."""
        return {name: each.message for name, each in self.outcomes.items() if each.outcome == "failed"}

    @property
    def left(self) -> frozenset[str]:
        """What has to be carried forward: of those that failed, and of those that are not there."""
        return frozenset(name for name, each in self.outcomes.items() if each.outcome in ("failed", "absent"))

    def report(self, *, now: int) -> ResumeReport:
        """What came of it; `now` is the store's time in microseconds."""
        stored = self._stored
        return ResumeReport(
            checkpoint=stored.checkpoint,
            # A clock that went back does not make it younger than new.
            age_seconds=max(0.0, now / 1e6 - stored.checkpoint.created_at.timestamp()),
            steps_recovered=stored.counters.step,
            beats_recovered=stored.counters.beats,
            counted_on=stored.counters.taken_from,
            sources=dict(self.outcomes),
            unclaimed=tuple(name for name in (*stored.values, *stored.refused) if name not in self.outcomes),
            passed_over=stored.passed_over,
            newer_branches=stored.newer,
        )


def writer_of(session: Session) -> Writer:
    """The writer of a session: the recorder is its friend, as the async façade is."""
    return session._writer  # noqa: SLF001 - see above


def check_session(session: S, wanted: type[S]) -> S:
    """Return `session` if it is one that this kind of recorder saves into."""
    if isinstance(session, wanted):
        return session
    raise bad_argument(
        f"a recorder of this kind needs a {wanted.__name__}, not a {type(session).__name__}",
        "Recorder takes the session of holdfast.open(), with store.session(...), "
        "AsyncRecorder that of holdfast.aopen()",
    )


def read_stored(session: Session, ref: Ref, *, follow: bool) -> Stored:
    """The newest state that is whole, at or before `ref`. Nothing of the session changes: see `go_on_from`.

    Args:
        session: Where.
        ref: Which.
        follow: Whether to look on the session's current branch, where the Session has named none.

    Raises:
        NotFoundError: `ref` names nothing.
        IntegrityError: Nothing can be read (`nothing-intact`).
    """
    writer = writer_of(session)
    branch = writer.current_branch() if follow and writer.follows_current else writer.branch
    if ref == "@" and (wanted := os.environ.get(RESUME_VARIABLE)):
        branch = _from_environment(session, wanted, branch)
    place = writer.place._replace(branch=branch)
    refused: dict[str, str] = {}
    try:
        checkpoint, values, damaged, tip = _read(place, ref, writer.parts.types)
    except StateError:
        checkpoint, bare, damaged, tip = _read(place, ref, _BARE)
        values = {}
        for name, value in bare.items():
            try:
                values[name] = decode_value(encode_value(value, _BARE), writer.parts.types)
            except StateError as error:
                refused[name] = str(error)
    newer = tuple(_newer_branches(session, checkpoint, branch))
    return Stored(checkpoint, values, refused, damaged, branch, tip, newer, _counters(session, checkpoint))


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


def read_bare(session: Session, ref: Ref = "@") -> Mapping[str, Any]:
    """The newest state that is whole, as nobody else has it, and without types; empty where there is none."""
    writer = writer_of(session)
    try:
        return _read(writer.place, ref, _BARE)[1]
    except (NotFoundError, IntegrityError):
        return {}


def newest_bare(session: Session) -> tuple[Checkpoint, dict[str, Any]]:
    """The newest state of a session, on whatever branch, that can be read whole, and its checkpoint; without types.

    Raises:
        IntegrityError: Nothing can be read.
    """
    place = writer_of(session).place
    names = {place.branch, "main"}
    with suppress(HoldfastError):
        names |= {each.name for each in session.branches()}
    found = []
    trouble: HoldfastError = NotFoundError(
        "nothing can be read", code=ErrorCode.CHECKPOINT_MISSING, hint="look at other sessions"
    )
    for name in names:
        try:
            found.append(_read(place._replace(branch=name), "@", _BARE)[:2])
        except (NotFoundError, IntegrityError) as error:
            trouble = error
    if not found:
        raise trouble
    return max(found, key=lambda each: each[0].seq)


def unencodable(session: Session, state: Mapping[str, Any]) -> dict[str, str]:
    """The sources whose values cannot be encoded, and why."""
    found = {}
    for name, value in state.items():
        try:
            encode_value(value, writer_of(session).parts.types)
        except InvalidInputError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def has_checkpoints(session: Session) -> bool:
    """Whether anything was ever saved there that still counts."""
    return bool(session.branches())


def _from_environment(session: Session, wanted: str, branch: str) -> str:
    """Rewind to the checkpoint that HOLDFAST_RESUME names, once; the branch to go on with.

    A child of it with the same state is saved under a key that has the variable's value: a supervised restart, which
    has the same variable, finds the key and goes on where it was.
    """
    name, at, ref = wanted.partition("@")
    if name != session.id or not at:
        return branch
    writer = writer_of(session)
    key = f"{RESUME_VARIABLE}={wanted}"
    if session.keyed(key, f"{key} "):
        return branch
    try:
        checkpoint, values, _, _ = _read(writer.place._replace(branch=branch), ref or "@", _BARE)
    except NotFoundError as missing:
        # Not "there is no checkpoint yet": beginning anew would be saved over what there is.
        raise InvalidInputError(
            f"{RESUME_VARIABLE} is {wanted!r:.80}, and {missing}",
            code=ErrorCode.BAD_CONFIG,
            hint="holdfast list shows the checkpoints; unset the variable to go on from the newest",
        ) from missing
    saved = session.save(
        values,
        f"resumed from #{checkpoint.seq}, as {RESUME_VARIABLE} says",
        trigger="restore",
        step=checkpoint.step,
        metadata={**checkpoint.metadata, "restored_from": checkpoint.id},
        key=key,
        parent=checkpoint.id,
        on_conflict="fork",
    )
    # Retention must not make a supervised restart rewind again.
    session.pin(saved.id)
    return saved.branch


def _read(
    place: Any, ref: Ref, types: TypeRegistry
) -> tuple[Checkpoint, dict[str, Any], tuple[DamagedCheckpoint, ...], CheckpointId | None]:
    with newest_intact(place, ref, types) as found:
        # Whatever else somebody saved into the session has no sources.
        state = found.state if isinstance(found.state, dict) else {}
        values = {name: value for name, value in state.items() if type(name) is str}
        return Checkpoint(found.row, found.owner), values, found.damaged, found.tip


def _newer_branches(session: Session, checkpoint: Checkpoint, branch: str) -> Iterator[str]:
    if checkpoint.session != session.id:
        return
    try:
        branches = session.branches()
    except IntegrityError:
        # The report is about what could be restored; that a branch is damaged, `verify` says.
        return
    yield from (each.name for each in branches if each.name != branch and each.head.seq > checkpoint.seq)


def _counters(session: Session, checkpoint: Checkpoint) -> Counters:
    """The counters of a checkpoint; where it has none, those of the nearest one with the same state.

    A recorder puts its counters onto each of its checkpoints. A person's note, a restore and a fork have the same state
    without them.
    """
    known = _counted(checkpoint)
    if (known.step, known.beats) != (None, None) and checkpoint.trigger not in ("restore", "fork"):
        return known
    try:
        for other in _same_state(session, checkpoint):
            if known.step is not None and known.beats is not None:
                break
            theirs = _counted(other)
            more: dict[str, Any] = {
                name: new
                for name, old, new in zip(Counters._fields, known, theirs, strict=True)
                if old is None and new is not None
            }
            if more.keys() & {"step", "beats"} and known.taken_from is None:
                more["taken_from"] = other.id
            known = known._replace(**more)
    except HoldfastError:
        # The state is back, which is what counts; what else is damaged, `verify` says.
        return known
    return known


def _same_state(session: Session, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
    source = checkpoint.metadata.get("restored_from")
    log = session.log(checkpoint.id, limit=_NEAR)
    # The same state may have been saved at several steps; a restore says which one it means. A fork into another
    # session has no `prev`, but a parent.
    candidates = (_anywhere(session, source), *log[1:], _anywhere(session, log[-1].parent if log else None))
    yield from (each for each in candidates if each is not None and each.root == checkpoint.root)


def _anywhere(session: Session, name: object) -> Checkpoint | None:
    """A checkpoint by its whole id, in whatever session. Metadata is anybody's to write: it may be none."""
    try:
        wanted = CheckpointId(bytes.fromhex(name)) if isinstance(name, str) else None
    except ValueError:
        return None
    if wanted is None:
        return None
    with writer_of(session).parts.backend.reader() as reader:
        row = reader.checkpoint(wanted)
    return None if row is None else Checkpoint(row, SessionRow(row.session, None, None, 0))


def _counted(checkpoint: Checkpoint) -> Counters:
    beats = checkpoint.metadata.get("beats")
    return Counters(
        checkpoint.step,
        beats if type(beats) is int else None,
        checkpoint.tokens,
        checkpoint.cost_usd,
        checkpoint.duration_ms,
    )
