"""export: checkpoints of a session as files.

What is to be written is chosen in one view of the store; states are read in pages (`loading.StatePages`), each written
and let go before the next, so that memory holds the largest of them and no more. A file appears whole or not at all: it
is written beside its place and renamed. Only JSON Lines grow in place, a line at a time (`lines.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.errors import HoldfastWarning
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.refs import is_range, missing_head, nothing_in, resolve_range
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.record import Record
from holdfast.reports.transfer import ExportReport
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointRow, Query, SessionRow
from holdfast.store.archives.envelope import SessionHeader
from holdfast.store.archives.files import Replaced, check_free, file_path, joined
from holdfast.store.archives.lines import JsonLines, SeenTo
from holdfast.store.archives.locking import locked
from holdfast.store.archives.packing import gzipped
from holdfast.store.archives.targets import Target, bad, check_stream, real
from holdfast.store.archives.writing import checkpoint_text, header_text
from holdfast.store.load_many import EachState
from holdfast.store.place import Place, read_again, session_of
from holdfast.store.progress import callers_level

Ref = str | Checkpoint


class _Chosen(Record):
    """What is to be exported, from one view."""

    rows: tuple[CheckpointRow, ...]
    owner: SessionRow
    header: SessionHeader | None
    notes: tuple[str, ...] = ()
    """What is said of the ranges that have nothing in them."""


def export(
    place: Place,
    refs: Ref | Iterable[Ref],
    target: str | Path | BinaryIO,
    *,
    format: str | None,  # noqa: A002 - the word of the public contract
    session: bool,
    force: bool,
) -> ExportReport:
    """Write checkpoints to where they are wanted; see `Session.export`."""
    wanted = (refs,) if isinstance(refs, str | Checkpoint) else tuple(refs)
    # Before anything is read: what does not fit is refused whatever there is to export.
    named = Target(target, format, whole=session) if isinstance(target, str | Path) else target
    chosen = read_again(partial(_choose, place, wanted, whole=session))
    if isinstance(named, Target):
        report = _to_target(place, chosen, named, whole=session, force=force)
    else:
        report = _to_stream(place, chosen, named, format)
    for note in chosen.notes:
        # Afterwards: where warnings are errors, what was asked for is there all the same.
        warnings.warn(note, HoldfastWarning, stacklevel=callers_level())
    return report


def _to_target(place: Place, chosen: _Chosen, named: Target, *, whole: bool, force: bool) -> ExportReport:
    path, kind = named.path, named.kind
    if named.is_folder:
        return export_to_folder(place, chosen.rows, chosen.owner, path, kind)
    if kind == "html":
        return _to_page(place, chosen, path, force=force)
    if kind in ("json", "json.gz"):
        if len(chosen.rows) != 1:
            raise bad(
                f"{len(chosen.rows):,} checkpoints do not go into one {kind} file",
                "give a folder (a path that ends with /), or a .jsonl file",
            )
        return _to_file(place, chosen, path, zipped=kind.endswith(".gz"), force=force)
    if whole or force or kind == "jsonl.gz":
        return _to_file(place, chosen, path, zipped=kind.endswith(".gz"), force=force, one_line=True)
    return append(place, chosen.rows, chosen.owner, path)


def export_to_folder(
    place: Place, rows: Iterable[CheckpointRow], owner: SessionRow, folder: Path, kind: str
) -> ExportReport:
    """One file a checkpoint, named by its time and the first digits of its id."""
    rows = tuple(rows)
    names: list[str] = []
    size = written = 0
    for row, state in _states(place, rows, owner):
        name = partial(file_path, folder, row, kind)
        text = checkpoint_text(row, owner, state, one_line=False)
        file = Replaced(name(), zipped=kind.endswith(".gz"), chosen=name)
        done = file.write(text, only_if_new=True)
        names.append(str(file.path))
        size += done.bytes
        written += done.bytes > 0
    return ExportReport(written, tuple(names), size)


def append(place: Place, rows: Iterable[CheckpointRow], owner: SessionRow, path: Path) -> ExportReport:
    """Add lines to a file of JSON Lines, made where there is none; a checkpoint that it has already is passed over."""
    file = JsonLines(path)
    there = file.ids()
    new = tuple(row for row in rows if row.id.hex() not in there)
    size = added = 0
    for row, state in _states(place, new, owner):
        done = file.add(checkpoint_text(row, owner, state, one_line=True), unless=row.id.hex())
        size += done
        added += done > 0
    file.sync()
    return ExportReport(added, (str(path),), size)


def append_new(place: Place, row: CheckpointRow, owner: SessionRow, path: Path, seen_to: SeenTo) -> SeenTo:
    """Add the line of a checkpoint that was not there when the file was looked through so far; how far it is now."""
    file = JsonLines(path, seen_to)
    ((_, state),) = _states(place, (row,), owner)
    file.add(checkpoint_text(row, owner, state, one_line=True), unless=row.id.hex())
    file.sync()
    return file.seen_to


def _to_file(
    place: Place, chosen: _Chosen, path: Path, *, zipped: bool, force: bool, one_line: bool = False
) -> ExportReport:
    check_free(path, force=force)
    text = _text(place, chosen, one_line=one_line)
    file = Replaced(real(path), zipped=zipped and not one_line)
    if zipped and one_line:
        done = file.write_bytes(gzipped(text), renaming=_taking(path, force=force))
    else:
        done = file.write(text, renaming=_taking(path, force=force))
    return ExportReport(len(chosen.rows), (str(path),), done.bytes)


@contextmanager
def _taking(path: Path, *, force: bool) -> Iterator[None]:
    """Take a place that is still free, or that is to be written over; nobody adds lines to what was there meanwhile."""
    # Lines are added to no other file, and not every file system has locks.
    with locked(path) if path.suffix == ".jsonl" else nullcontext():
        # It took a while since this was asked first.
        check_free(path, force=force)
        yield


def _to_page(place: Place, chosen: _Chosen, path: Path, *, force: bool) -> ExportReport:
    # Only a page needs it, and what it takes to compare states.
    from holdfast.store.archives.page import MOST, page_text

    check_free(path, force=force)
    with place.backend.reader() as reader:
        heads = {each.name: each.head for each in reader.branches(chosen.owner.id)}
    newest = sorted(chosen.rows, key=lambda row: row.seq, reverse=True)
    rows, left_out = newest[:MOST], len(newest[MOST:])
    text = page_text(place, chosen.owner, heads, rows, _states(place, rows, chosen.owner), left_out)
    done = Replaced(real(path), zipped=False).write(text, renaming=_taking(path, force=force))
    return ExportReport(len(rows), (str(path),), done.bytes)


def _to_stream(place: Place, chosen: _Chosen, stream: BinaryIO, kind: str | None) -> ExportReport:
    if not hasattr(stream, "write"):
        raise bad(
            f"nothing can be exported to a {type(stream).__name__}",
            "pass a path, or a file opened to write bytes",
        )
    one_line = check_stream(kind, count=len(chosen.rows), whole=chosen.header is not None)
    size = 0
    for piece in joined(_text(place, chosen, one_line=one_line)):
        stream.write(piece)
        size += len(piece)
    return ExportReport(len(chosen.rows), (), size)


def _text(place: Place, chosen: _Chosen, *, one_line: bool) -> Iterator[str]:
    if chosen.header is not None:
        yield from header_text(chosen.header)
    for row, state in _states(place, chosen.rows, chosen.owner):
        yield from checkpoint_text(row, chosen.owner, state, one_line=one_line)


def _states(
    place: Place, rows: Iterable[CheckpointRow], owner: SessionRow
) -> Iterator[tuple[CheckpointRow, Any]]:
    """Each row with what is stored of its state: no class is asked for, and none is needed."""
    rows = tuple(rows)
    checkpoints = (Checkpoint(row, owner) for row in rows)
    states = EachState(place.backend, TypeRegistry(), checkpoints, ChunksAtHand())
    for row in rows:
        yield row, next(states)


def _choose(place: Place, refs: tuple[Ref, ...], *, whole: bool) -> _Chosen:
    session = place.claim.session
    with place.backend.reader() as reader:
        owner = reader.session(session)
        if owner is None:
            missing_head(reader, session, place.branch)
        if whole:
            rows = tuple(_every(reader, session))
            heads = {each.name: each.head for each in reader.branches(session)}
            current = owner.current if owner.current in heads else next(iter(heads), owner.current)
            header = SessionHeader(session, owner.agent, owner.project, current, heads, len(rows))
            return _Chosen(rows, owner, header)
        each = [(ref, tuple(_named(place, reader, ref))) for ref in refs]
        found = {row.id: row for _, named in each for row in named}
        rows = tuple(sorted(found.values(), key=lambda row: row.seq))
        # Only a range can have nothing in it: any other ref names a checkpoint, or is refused.
        ranges = dict.fromkeys(ref for ref, named in each if isinstance(ref, str) and not named)
        empty = tuple(_nothing_in(place, reader, ref) for ref in ranges)
        if not rows:
            why = "; ".join(empty)
            raise bad(f"there is nothing to export: {why}", "name a checkpoint, or a range that has some")
        return _Chosen(rows, session_of(reader, rows[0]), None, empty)


def _named(place: Place, reader: Reader, ref: Ref) -> Iterable[CheckpointRow]:
    if isinstance(ref, str) and is_range(ref):
        return resolve_range(reader, place.claim.session, place.branch, ref, now=place.clock())
    return (place.find(reader, ref),)


def _nothing_in(place: Place, reader: Reader, text: str) -> str:
    return nothing_in(text, lambda other: any(True for _ in _named(place, reader, other)))


def _every(reader: Reader, session: str) -> Iterator[CheckpointRow]:
    last = 0
    while page := reader.checkpoints(Query(session=session, oldest_first=True, after_seq=last, limit=1000)):
        yield from page
        last = page[-1].seq
