"""What a folder of commits comes to: the store at one moment, and what each file makes of it.

Pure functions from one view to the next, and the way of a batch into bytes and back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import ormsgpack

from holdfast.backends import lease_rules, rules
from holdfast.backends.row_tables import Tables
from holdfast.errors import (
    ConflictError,
    ErrorCode,
    InvalidInputError,
)
from holdfast.storage.copy_rows import Adopted, Adoption, adoption_mark
from holdfast.storage.leases import Fence, Holder, Lease
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Chunk,
    ChunkHash,
    Claim,
    Edit,
    Guard,
    Move,
    Operation,
    Query,
    SessionRow,
    StoreStats,
)
from holdfast.storage.tables import Row, RowQuery, Table


@dataclass(frozen=True)
class View:
    """The store at one moment; nothing in it is ever changed, so a reader can simply hold on to it."""

    session_rows: dict[str, SessionRow] = field(default_factory=dict)
    heads: dict[tuple[str, str], BranchRow] = field(default_factory=dict)
    rows: dict[CheckpointId, CheckpointRow] = field(default_factory=dict)
    log: tuple[Operation, ...] = ()
    pieces: dict[ChunkHash, bytes] = field(default_factory=dict)
    stamps: dict[ChunkHash, int] = field(default_factory=dict)
    adopted_rows: dict[str, int] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    epoch: int = 0
    position: int = 0
    lease_epoch: int = 0
    tables_there: Tables = field(default_factory=Tables)

    def session(self, session: str) -> SessionRow | None:
        return self.session_rows.get(session)

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> list[SessionRow]:
        rows = [
            r for r in self.session_rows.values() if agent in (None, r.agent) and project in (None, r.project)
        ]
        return sorted(rows, key=lambda row: row.created_at)

    def branch(self, session: str, name: str) -> BranchRow | None:
        return self.heads.get((session, name))

    def branches(self, session: str) -> list[BranchRow]:
        return sorted(
            (row for row in self.heads.values() if row.session == session), key=lambda row: row.name
        )

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        return self.rows.get(checkpoint)

    def checkpoints(self, query: Query) -> list[CheckpointRow]:
        rows = [row for row in self.rows.values() if self._matches(row, query)]
        if query.by_key:
            keyed = [row for row in rows if row.key is not None]
            rows = sorted(keyed, key=lambda row: (str(row.key), row.position))
        return (rows if query.oldest_first else rows[::-1])[: query.limit]

    def operations(self, session: str, *, after: int = 0) -> list[Operation]:
        return [entry for entry in self.log if entry.session == session and entry.number > after]

    def chunks(self, hashes: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        return {name: self.pieces[name] for name in hashes if name in self.pieces}

    def present(self, hashes: Iterable[ChunkHash]) -> set[ChunkHash]:
        return self.pieces.keys() & set(hashes)

    def adopted(self, session: SessionRow) -> Adopted | None:
        mark = self.adopted_rows.get(session.id)
        kinds: tuple[Adopted, ...] = ("whole", "partial")
        return next((each for each in kinds if mark == adoption_mark(session, each)), None)

    def tables(self) -> list[Table]:
        return self.tables_there.declared()

    def find_rows(self, table: Table, query: RowQuery) -> list[Row]:
        return self.tables_there.find(table, query)

    def count_rows(self, table: Table, query: RowQuery) -> int:
        return len(self.tables_there.find(table, query._replace(limit=None)))

    def stats(self) -> StoreStats:
        size = sum(map(len, self.pieces.values()))
        hidden = sum(1 for row in self.rows.values() if row.hidden)
        return StoreStats(
            sessions=len(self.session_rows),
            branches=len(self.heads),
            checkpoints=len(self.rows) - hidden,
            hidden=hidden,
            chunks=len(self.pieces),
            chunk_bytes=size,
            stored_bytes=size,
        )

    def _matches(self, row: CheckpointRow, query: Query) -> bool:
        owner = self.session_rows[row.session]
        values = {"agent": owner.agent, "project": owner.project}
        for name in ("session", "branch", "agent", "project", "status", "step", "seq", "key"):
            wanted = getattr(query, name)
            if wanted is not None and wanted != values.get(name, getattr(row, name, None)):
                return False
        return (
            (query.include_hidden or not row.hidden)
            and query.tag in (None, *row.tags)
            and row.id.hex().startswith(query.id_prefix or "")
            and query.prev in (None, row.prev or b"")
            and query.trigger in (None, row.trigger, row.trigger.partition(":")[0])
            and (query.key_from is None or (row.key is not None and row.key >= query.key_from))
            and (query.key_below is None or (row.key is not None and row.key < query.key_below))
            and (query.since is None or row.created_at >= query.since)
            and (query.until is None or row.created_at <= query.until)
            and (query.before_seq is None or row.seq < query.before_seq)
            and (query.after_seq is None or row.seq > query.after_seq)
            and (query.before_position is None or row.position < query.before_position)
            and (query.after_position is None or row.position > query.after_position)
            and all(_metadata_has(row, path, value) for path, value in query.metadata)
        )


def _metadata_has(row: CheckpointRow, path: tuple[str, ...], value: str) -> bool:
    found: Any = json.loads(row.metadata) | json.loads(row.added_metadata or "{}")
    for key in path:
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    # As text: 1, "1" and true are equal in no JSON, though 1 == True in Python.
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) == value


def check(view: View, batch: Batch) -> None:
    """Raise what the contract asks for, in its order."""
    claim = batch.claim
    if batch.fence is not None:
        lease_rules.check_fence(view.leases.get(batch.fence.name), batch.fence)
    owner = view.session_rows.get(claim.session) or SessionRow(
        id=claim.session, agent=None, project=None, created_at=batch.at
    )
    for mine, its in ((claim.agent, owner.agent), (claim.project, owner.project)):
        if mine is not None and its is not None and mine != its:
            raise InvalidInputError(
                f"session {claim.session!r} belongs to {its!r}",
                code=ErrorCode.SESSION_MISMATCH,
                hint="use another session",
            )
    if batch.guard is not None and (
        batch.guard.log_count != owner.log_count or batch.guard.last_seq not in (None, owner.last_seq)
    ):
        raise ConflictError.session_changed(claim.session)
    for relied_on in rules.relied_on(batch):
        if relied_on not in view.rows:
            raise ConflictError.chunks_gone(relied_on)
    for move in batch.moves:
        branch = view.branch(claim.session, move.branch)
        head = branch.head if branch else None
        if head != move.expected:
            raise ConflictError.branch_moved(claim.session, move.branch, expected=move.expected, actual=head)
    for row in batch.checkpoints:
        taken = (
            view.checkpoints(Query(session=row.session, key=row.key, include_hidden=True)) if row.key else []
        )
        if taken:
            raise ConflictError.key_taken(row.session, str(row.key), existing=taken[0].id)
    known = view.rows | {row.id: row for row in batch.checkpoints}
    hidden = {each.id: each.hidden for each in batch.edits}
    for name in hidden:
        if name not in known:
            raise rules.edit_missing(name)
    for name in batch.removals:
        if name in known:
            rules.check_removal(known[name], claim.session, hidden=hidden.get(name, known[name].hidden))


def apply(view: View, batch: Batch) -> View:
    """The view after a batch that has been checked."""
    name, claim = batch.claim.session, batch.claim
    old = view.session_rows.get(name) or SessionRow(id=name, agent=None, project=None, created_at=batch.at)
    new_pieces = {piece.hash: piece.data for piece in batch.chunks if piece.hash not in view.pieces}
    rows, heads = dict(view.rows), dict(view.heads)
    for number, row in enumerate(batch.checkpoints):
        rows[row.id] = row._replace(
            seq=old.last_seq + 1 + number,
            position=view.position + 1 + number,
            stored_at=batch.at,
            stored_bytes=0 if number else sum(map(len, new_pieces.values())),
        )
    for each in batch.edits:
        changed = {key: value for key, value in each._asdict().items() if key != "id"}
        rows[each.id] = rows[each.id]._replace(**changed)
    for gone in batch.removals:
        rows.pop(gone, None)
    for move in batch.moves:
        if move.head is None:
            del heads[name, move.branch]
        else:
            heads[name, move.branch] = BranchRow(
                session=name, name=move.branch, head=move.head, moved_at=batch.at
            )
    session = old._replace(
        agent=old.agent or claim.agent,
        project=old.project or claim.project,
        last_seq=old.last_seq + len(batch.checkpoints),
        log_count=old.log_count + len(batch.operations),
        log_tip=batch.operations[-1].hash if batch.operations else old.log_tip,
        current=batch.switch_to or old.current,
    )
    cut = batch.cuts_log_from
    log = tuple(each for each in view.log if not (cut and each.session == name and each.number >= cut))
    return replace(
        view,
        session_rows=view.session_rows | {name: session},
        heads=heads,
        rows=rows,
        log=log + batch.operations,
        pieces=view.pieces | new_pieces,
        stamps=view.stamps | {piece.hash: view.epoch for piece in batch.chunks},
        position=view.position + len(batch.checkpoints),
    )


def adopt(view: View, batch: Adoption) -> View:
    """The view after rows of another store have been put in their places."""
    name, position = batch.session.id, view.position
    gone = {*batch.removals, *(row.id for row in batch.checkpoints)}
    rows = {key: row for key, row in view.rows.items() if key not in gone or row.session != name}
    for row in batch.checkpoints:
        position += not row.position
        rows[row.id] = row if row.position else row._replace(position=position)
    heads = view.heads
    if batch.branches is not None:
        heads = {key: row for key, row in heads.items() if row.session != name}
        heads |= {(name, row.name): row for row in batch.branches}
    cut = batch.cuts_log_from
    log = tuple(each for each in view.log if not (cut and each.session == name and each.number >= cut))
    stamped = [*(piece.hash for piece in batch.chunks), *batch.found]
    return replace(
        view,
        session_rows=view.session_rows | {name: batch.session},
        heads=heads,
        rows=dict(sorted(rows.items(), key=lambda item: item[1].position)),
        log=log + batch.operations,
        pieces=view.pieces | {piece.hash: piece.data for piece in batch.chunks},
        stamps=view.stamps | dict.fromkeys(stamped, view.epoch),
        adopted_rows=_marked(view, batch),
        position=position,
    )


def _marked(view: View, batch: Adoption) -> dict[str, int]:
    marks = {name: mark for name, mark in view.adopted_rows.items() if name != batch.session.id}
    if batch.whole is not None:
        marks[batch.session.id] = adoption_mark(batch.session, "whole" if batch.whole else "partial")
    return marks


def erase(view: View, session: str) -> View:
    """The view without a session."""
    return replace(
        view,
        session_rows={name: row for name, row in view.session_rows.items() if name != session},
        heads={key: row for key, row in view.heads.items() if row.session != session},
        rows={key: row for key, row in view.rows.items() if row.session != session},
        log=tuple(each for each in view.log if each.session != session),
        adopted_rows={name: mark for name, mark in view.adopted_rows.items() if name != session},
        leases={
            name: each for name, each in view.leases.items() if not lease_rules.is_named_after(name, session)
        },
    )


def lease_to(view: View, name: str, lease: Lease | None) -> View:
    """The view with a lease that was claimed or renewed, or without one that was given up."""
    others = {key: each for key, each in view.leases.items() if key != name}
    if lease is None:
        return replace(view, leases=others)
    return replace(view, leases=others | {name: lease}, lease_epoch=max(view.lease_epoch, lease.epoch))


def sweep(view: View, names: Iterable[ChunkHash]) -> View:
    """The view without these chunks."""
    gone = set(names)
    return replace(
        view,
        pieces={name: data for name, data in view.pieces.items() if name not in gone},
        stamps={name: stamp for name, stamp in view.stamps.items() if name not in gone},
    )


def follow(view: View, data: bytes) -> View:
    """The view after one more file. An empty one was scrubbed: a later file has everything."""
    event = ormsgpack.unpackb(data) if data else {}
    if "tables" in event:
        view = replace(view, tables_there=Tables.from_data(event["tables"]))
    if "batch" in event:
        return apply(view, batch_from(event["batch"]))
    if "adoption" in event:
        return adopt(view, adoption_from(event["adoption"]))
    if "erase" in event:
        return erase(view, event["erase"])
    if "lease" in event:
        name, raw = event["lease"]
        return lease_to(view, name, None if raw is None else lease_from(raw))
    if "sweep" in event:
        return sweep(view, event["sweep"])
    if "everything" in event:
        return view_from(event["everything"])
    return replace(view, epoch=event.get("epoch", view.epoch))


def plain(value: Any) -> Any:
    if isinstance(value, Batch):
        # Their data may be made when it is asked for.
        chunks = tuple(Chunk(each.hash, each.data, each.base) for each in value.chunks)
        return {name: plain(each) for name, each in value._replace(chunks=chunks)._asdict().items()}
    if isinstance(value, Tables):
        return value.to_data()
    if isinstance(value, View):
        return {name: plain(each) for name, each in vars(value).items()}
    if isinstance(value, dict):
        return [[plain(key), plain(each)] for key, each in value.items()]
    if hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def batch_from(raw: dict[str, Any]) -> Batch:
    made = {
        "claim": Claim(**raw["claim"]),
        "chunks": tuple(Chunk(**each) for each in raw["chunks"]),
        "checkpoints": tuple(CheckpointRow(**_tuples(each)) for each in raw["checkpoints"]),
        "moves": tuple(Move(**each) for each in raw["moves"]),
        "edits": tuple(Edit(**_tuples(each)) for each in raw["edits"]),
        "operations": tuple(Operation(**each) for each in raw["operations"]),
        "guard": Guard(**raw["guard"]) if raw["guard"] else None,
        "removals": tuple(raw["removals"]),
        "fence": Fence(**raw["fence"]) if raw["fence"] else None,
        "rows": (),
    }
    return Batch(**(raw | made))


def lease_from(raw: dict[str, Any]) -> Lease:
    return Lease(**(raw | {"holder": Holder(**raw["holder"])}))


def adoption_from(raw: dict[str, Any]) -> Adoption:
    made = {
        "session": SessionRow(**raw["session"]),
        "expected": SessionRow(**raw["expected"]) if raw["expected"] else None,
        "chunks": tuple(Chunk(**each) for each in raw["chunks"]),
        "found": tuple(raw["found"]),
        "checkpoints": tuple(CheckpointRow(**_tuples(each)) for each in raw["checkpoints"]),
        "removals": tuple(raw["removals"]),
        "branches": None if raw["branches"] is None else tuple(BranchRow(**each) for each in raw["branches"]),
        "operations": tuple(Operation(**each) for each in raw["operations"]),
    }
    return Adoption(**(raw | made))


def view_from(raw: dict[str, Any]) -> View:
    made = {
        "session_rows": {name: SessionRow(**row) for name, row in raw["session_rows"]},
        "heads": {(session, name): BranchRow(**row) for (session, name), row in raw["heads"]},
        "rows": {name: CheckpointRow(**_tuples(row)) for name, row in raw["rows"]},
        "log": tuple(Operation(**each) for each in raw["log"]),
        "pieces": dict(raw["pieces"]),
        "stamps": dict(raw["stamps"]),
        "adopted_rows": dict(raw["adopted_rows"]),
        "leases": {name: lease_from(each) for name, each in raw["leases"]},
        "tables_there": Tables.from_data(raw["tables_there"]),
    }
    return View(**(raw | made))


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
