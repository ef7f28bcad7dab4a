"""Rows and batches for tests of a backend, in one line each.

Everything has a label, and the label decides the ids: `row("a")` is the same row each time it is asked for, so a test
can name a checkpoint without carrying it around. What the labels do not say can be given by field name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from holdfast.history import jsontext
from holdfast.storage.ports import Backend
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Chunk,
    ChunkHash,
    Claim,
    Edit,
    Move,
    Operation,
    Query,
    SessionRow,
    StoreStats,
)

START = 1_700_000_000_000_000
"""The time at which everything here happens, unless a test says otherwise."""


def checkpoint_id(label: str) -> CheckpointId:
    """The id of the checkpoint of that label."""
    return CheckpointId(blake3(b"checkpoint " + label.encode()).digest())


def chunk(data: bytes) -> Chunk:
    """A chunk with these bytes, under the name that they give it."""
    return Chunk(ChunkHash(blake3(data).digest()), data)


def state_chunk(of: str | CheckpointId) -> Chunk:
    """The chunk that a row has as its root, by its label or its id, unless a test gives it another."""
    named = checkpoint_id(of) if isinstance(of, str) else of
    return chunk(b"the state of " + named.hex().encode())


def row(label: str, **fields: Any) -> CheckpointRow:
    """A checkpoint row named by its label; any field can be given."""
    plain: dict[str, Any] = {
        "id": checkpoint_id(label),
        "session": "work",
        "branch": "main",
        "parents": (),
        "root": state_chunk(label).hash,
        "created_at": START,
        "trigger": "manual",
        "status": "running",
        "step": None,
        "message": f"about {label}",
        "metadata": "{}",
        "tokens": None,
        "cost_usd": None,
        "duration_ms": None,
        "app_version": None,
        "nonce": b"nonce of " + label.encode(),
        "key": None,
        "size_bytes": len(state_chunk(label).data),
    }
    return CheckpointRow(**(plain | fields))


def batch(*checkpoints: CheckpointRow, session: str = "work", **fields: Any) -> Batch:
    """A batch for one session, with the root chunks of those rows that have the one `row` gives them.

    `agent` and `project` go into the claim; every other name is a field of `Batch`.
    """
    claim = Claim(session=session, agent=fields.pop("agent", None), project=fields.pop("project", None))
    states = ((each, state_chunk(each.id)) for each in checkpoints)
    chunks = tuple(state for each, state in states if each.root == state.hash)
    plain: dict[str, Any] = {"claim": claim, "at": START, "chunks": chunks, "checkpoints": checkpoints}
    return Batch(**(plain | fields))


def save(label: str, *, after: str | CheckpointId | None = None, at: int = START, **fields: Any) -> Batch:
    """The batch of one save on a branch: a row, its chunk, and the move from `after` (a label or an id) to it.

    `agent` and `project` go into the claim; every other name is a field of the row.
    """
    claim = {name: fields.pop(name) for name in ("agent", "project") if name in fields}
    head = checkpoint_id(after) if isinstance(after, str) else after
    links = {"parents": (head,) if head else (), "prev": head}
    made = row(label, **({"created_at": at} | links | fields))
    move = Move(branch=made.branch, expected=head, head=made.id)
    return batch(made, session=made.session, at=at, moves=(move,), **claim)


def edit(of: CheckpointRow, **changes: Any) -> Edit:
    """The edit that changes these fields of a row and leaves the others as they are."""
    names = ("prev", "skipped", "hidden", "tags", "pinned", "edited_message", "added_metadata")
    return Edit(**({"id": of.id} | {name: getattr(of, name) for name in names} | changes))


def removal(*of: CheckpointRow, session: str = "work", **fields: Any) -> Batch:
    """A batch that removes these checkpoints for good, hidden or not."""
    hidden = tuple(edit(each, hidden=each.hidden or 1) for each in of)
    return batch(session=session, edits=hidden, removals=tuple(each.id for each in of), **fields)


def operation(number: int, *, previous: bytes = b"", session: str = "work", **fields: Any) -> Operation:
    """An entry of the operation log, with a hash that links it to `previous`."""
    plain: dict[str, Any] = {"kind": "annotate", "at": START, "data": "{}"} | fields
    link = blake3(previous + jsontext.dump([session, number, plain]).encode()).digest()
    return Operation(session=session, number=number, previous=previous, hash=link, **plain)


def history(count: int, *, session: str = "work") -> tuple[Operation, ...]:
    """The first `count` entries of an operation log, each linked to the one before."""
    entries: list[Operation] = []
    for number in range(1, count + 1):
        previous = entries[-1].hash if entries else b""
        entries.append(
            operation(number, previous=previous, session=session, data=jsontext.dump({"n": number}))
        )
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a reader shows of a store; two equal ones look the same to every caller."""

    sessions: Sequence[SessionRow]
    branches: Sequence[BranchRow]
    checkpoints: Sequence[CheckpointRow]
    operations: Sequence[Operation]
    stats: StoreStats


def contents(backend: Backend) -> Contents:
    """Read everything, removed checkpoints included, in one view."""
    with backend.reader() as reader:
        sessions = list(reader.sessions())
        return Contents(
            sessions=sessions,
            branches=[each for session in sessions for each in reader.branches(session.id)],
            checkpoints=list(reader.checkpoints(Query(include_hidden=True))),
            operations=[each for session in sessions for each in reader.operations(session.id)],
            # The size of the file may change without anything in it changing.
            stats=reader.stats()._replace(file_bytes=None),
        )
