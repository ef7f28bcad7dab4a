"""The portable form of a run's checkpoint: one JSON file, named by its id, that people can read, diff and commit.

`checkpoint.schema.json` beside this module is its schema; `validate` holds a dict to it, and says where it is not.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.agents.run.parts import PARTS, THOUGHT_TYPES, is_run, milliseconds, new_execution
from holdfast.errors import ErrorCode, HoldfastWarning, InvalidInputError, StateError, UnsupportedError

if TYPE_CHECKING:
    from holdfast import Checkpoint

VERSION: Final = "0.0.1"
SCHEMA: Final = Path(__file__).with_name("checkpoint.schema.json")


def portable(checkpoint: Checkpoint, state: Any, json_form: Callable[[Any], Any]) -> dict[str, Any]:
    """A checkpoint of a run in the portable form, validated.

    Raises:
        StateError: The checkpoint was not saved by a run.
    """
    if not is_run(state):
        raise StateError(
            f"checkpoint {checkpoint.id[:12]} was not saved by a run",
            code=ErrorCode.TYPE_MISMATCH,
            hint="session.export(ref, path) writes any checkpoint",
            checkpoint=checkpoint.id,
        )
    execution, metadata = state["execution"], checkpoint.metadata
    return validate(
        {
            "version": VERSION,
            "id": checkpoint.key or checkpoint.id,
            "timestamp": int(checkpoint.created_at.timestamp() * 1000),
            "execution_id": execution["id"],
            "agent_id": execution["agent_id"],
            "snapshot": {part: json_form(state[part]) for part in PARTS},
            "metadata": {
                "step_number": state["progress"]["step_number"],
                "tokens_used": execution["tokens_used"],
                "duration_ms": metadata.get("duration_ms", execution["duration_ms"]),
                "checkpoint_reason": metadata.get("checkpoint_reason", checkpoint.trigger),
                "cost_usd": execution["cost_usd"],
                "status": execution["status"],
                "task": execution["task"],
            },
        }
    )


def state_of(data: Mapping[str, Any], task: str, agent: str) -> dict[str, Any]:
    """The state of a run that goes on from a checkpoint in the portable form: thoughts, tokens and steps continue."""
    metadata = data["metadata"]
    execution = new_execution(
        task or metadata.get("task", ""),
        data["agent_id"] or agent,
        id=data["execution_id"],
        tokens_used=metadata["tokens_used"],
        cost_usd=float(metadata.get("cost_usd", 0.0)),
        # Its time goes on from what it had.
        started_at=milliseconds() - int(metadata["duration_ms"]),
        duration_ms=int(metadata["duration_ms"]),
    )
    return {part: data["snapshot"][part] for part in PARTS} | {"execution": execution}


def read_portable(source: Any) -> Mapping[str, Any] | None:
    """The portable form that `source` is or names; None where it is a ref of the session.

    Raises:
        InvalidInputError: It is none, or a file that cannot be read; the message has the place.
    """
    if isinstance(source, Mapping):
        return validate(source)
    is_path = isinstance(source, Path) or (isinstance(source, str) and source.endswith(".json"))
    if not is_path:
        return None
    path = Path(source)
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{path} cannot be read as a checkpoint: {error}",
            code=ErrorCode.ARCHIVE_MALFORMED,
            hint="pass a file that a run exported, a ref, or a dict",
            path=str(path),
        ) from None
    return validate(data)


class ExportFolder:
    """A folder that gets `{id}.json` for each checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of(cls, wanted: str | Path | bool | None) -> Self | None:  # noqa: FBT001 - as the argument is
        """The folder that `export_dir` means; None where it means no files."""
        if wanted is None or wanted is False:
            return None
        return cls(Path("checkpoints") if wanted is True else Path(wanted))

    def write(self, data: Mapping[str, Any]) -> None:
        """Write a file, whole or not at all. Where that fails it is a warning: the checkpoint is in the store."""
        path = self.folder / f"{data['id']}.json"
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text(data))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            warnings.warn(f"{path} was not written: {error}", HoldfastWarning, stacklevel=3)

    def remove(self, name: str) -> None:
        """Remove the file of a checkpoint that went."""
        (self.folder / f"{name}.json").unlink(missing_ok=True)


def text(data: Mapping[str, Any]) -> str:
    """The text of a file: a line for each value, in the order that they were made in."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


# Validation ----------------------------------------------------------------------------------------------------------

_NUMBER = (int, float)
_FIELDS: Final[Mapping[str, Any]] = {
    "version": str,
    "id": str,
    "timestamp": _NUMBER,
    "execution_id": str,
    "agent_id": str,
    "snapshot": dict,
    "metadata": dict,
    "snapshot.thought_chain": list,
    "snapshot.context": dict,
    "snapshot.context.variables": dict,
    "snapshot.context.state": dict,
    "snapshot.context.history": list,
    "snapshot.tool_state": dict,
    "snapshot.tool_state.calls": list,
    "snapshot.tool_state.results": dict,
    "snapshot.progress": dict,
    "snapshot.progress.step_number": int,
    "snapshot.progress.total_thoughts": int,
    "snapshot.progress.total_tool_calls": int,
    "metadata.step_number": int,
    "metadata.tokens_used": int,
    "metadata.duration_ms": _NUMBER,
    "metadata.checkpoint_reason": str,
}
_ITEMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "snapshot.thought_chain": {"id": str, "type": str, "content": str, "created_at": _NUMBER},
    "snapshot.tool_state.calls": {"id": str, "tool_id": str},
}


def validate(data: Any) -> dict[str, Any]:
    """The dict, if it has the portable form.

    Raises:
        InvalidInputError: It has not; the message and `details["path"]` say where.
        UnsupportedError: It was written by a newer version.
    """
    if not isinstance(data, Mapping):
        raise _malformed("", data, dict)
    version = data.get("version")
    if isinstance(version, str) and version != VERSION:
        raise UnsupportedError(
            f"the checkpoint has version {version!r:.40}, and this program reads {VERSION}",
            code=ErrorCode.FORMAT_TOO_NEW,
            hint="use the version of holdfast that wrote it, or a newer one",
            version=version,
        )
    for path, kind in _FIELDS.items():
        _check(path, _at(data, path), kind)
    for path, fields in _ITEMS.items():
        _check_items(path, _at(data, path), fields)
    for number, thought in enumerate(data["snapshot"]["thought_chain"]):
        if thought["type"] not in THOUGHT_TYPES:
            raise _malformed(
                f"snapshot.thought_chain[{number}].type", thought["type"], " or ".join(THOUGHT_TYPES)
            )
    return dict(data)


def _at(data: Any, path: str) -> Any:
    for name in path.split("."):
        data = data.get(name)
    return data


def _check_items(path: str, items: list[Any], fields: Mapping[str, Any]) -> None:
    for number, item in enumerate(items):
        _check(f"{path}[{number}]", item, dict)
        for name, kind in fields.items():
            _check(f"{path}[{number}].{name}", item.get(name), kind)


def _check(path: str, value: Any, kind: Any) -> None:
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if not fits or (kind in (int, _NUMBER) and value < 0):
        raise _malformed(path, value, kind)


def _malformed(path: str, value: Any, wanted: Any) -> InvalidInputError:
    names = {str: "a text", int: "a whole number", dict: "an object", list: "a list", _NUMBER: "a number"}
    expected = wanted if isinstance(wanted, str) else names[wanted]
    got = "missing" if value is None else f"{value!r:.60}"
    return InvalidInputError(
        f"{path or 'the checkpoint'} is {got}, not {expected}",
        code=ErrorCode.ARCHIVE_MALFORMED,
        hint="see checkpoint.schema.json for the form of a checkpoint",
        path=path,
    )
