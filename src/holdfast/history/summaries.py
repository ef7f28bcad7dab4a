"""What an operation did, in a few words for people.

The words are made when they are asked for, from the data of the entry and the rows it names; a row that is gone for
good is named by the first digits of its id.
"""

from __future__ import annotations

from holdfast.history import jsontext
from holdfast.history.oplog import Recorded, recorded
from holdfast.history.undoing import Log
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, Move, Operation

_AGAIN = {"undo": "undo of", "redo": "redo of"}


def summary(reader: Reader, log: Log, entry: Operation) -> str:
    """One line about an entry."""
    if entry.kind in _AGAIN:
        return f"{_AGAIN[entry.kind]} {summary(reader, log, log.origin(entry))}"
    data = recorded(entry)
    if entry.kind in ("delete", "clear", "prune", "retire"):
        return f"{entry.kind} {_removed(reader, entry.kind, data)}"
    if entry.kind in ("annotate", "tag", "pin"):
        return _changed(reader, entry.kind, data)
    if entry.kind in ("restore", "fork", "merge"):
        return f"{entry.kind} {_made(reader, entry.kind, data)}"
    if entry.kind in ("switch", "rename", "drop", "import"):
        return _branches(reader, entry.kind, data)
    return entry.kind


def _forward(reader: Reader, move: Move) -> str:
    ends = [_name(reader, each) for each in (move.expected, move.head) if each is not None]
    return f"branch {move.branch!r} from {' to '.join(ends)}"


def _removed(reader: Reader, kind: str, data: Recorded) -> str:
    if kind == "delete" and data.removed == 1:
        return _name(reader, next(each.checkpoint for each in data.edits if each.after.get("hidden")))
    return f"{data.removed} checkpoint{'' if data.removed == 1 else 's'}"


def _changed(reader: Reader, kind: str, data: Recorded) -> str:
    edit = data.edits[0]
    name = _name(reader, edit.checkpoint)
    if kind == "pin":
        return f"{'pin' if edit.after['pinned'] else 'unpin'} {name}"
    if kind == "tag":
        before, after = set(edit.before["tags"]), set(edit.after["tags"])
        signs = [f"+{tag}" for tag in sorted(after - before)] + [f"-{tag}" for tag in sorted(before - after)]
        return f"tag {name} {' '.join(signs)}"
    return f"annotate {name}"


def _made(reader: Reader, kind: str, data: Recorded) -> str:
    branch = data.moves[0].branch
    row = reader.checkpoint(data.made[0])
    if row is None:
        return f"on branch {branch!r}"
    if kind == "fork":
        return f"{_name(reader, row.parents[0], home=row.session)} to branch {branch!r}"
    if kind == "merge":
        return f"{_name(reader, row.parents[1], home=row.session)} into branch {branch!r} as #{row.seq}"
    source = CheckpointId(bytes.fromhex(jsontext.parse(row.metadata)["restored_from"]))
    return f"{_name(reader, source)} on branch {branch!r} as #{row.seq}"


def _branches(reader: Reader, kind: str, data: Recorded) -> str:
    if kind == "switch" and data.switch is not None:
        return f"switch from {data.switch[0]!r} to {data.switch[1]!r}"
    if kind == "import":
        return f"import that moved {', '.join(_forward(reader, each) for each in data.moves)}"
    gone = data.moves[0]
    if kind == "rename":
        return f"rename branch {gone.branch!r} to {data.moves[1].branch!r}"
    at = f" (at {_name(reader, gone.expected)})" if gone.expected else ""
    return f"delete branch {gone.branch!r}{at}"


def _name(reader: Reader, checkpoint: CheckpointId, *, home: str | None = None) -> str:
    row = reader.checkpoint(checkpoint)
    if row is None:
        return checkpoint.hex()[:12]
    elsewhere = f" of session {row.session!r}" if home not in (None, row.session) else ""
    return f"#{row.seq}{elsewhere}"
