"""Where a StateManager keeps agent states: a holdfast store, a folder of JSON files, or a class of your own."""

from __future__ import annotations

import builtins
import gzip
import json
import os
import sys
import time
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.agents.state.record import AgentState, naive_utc
from holdfast.errors import (
    ErrorCode,
    HoldfastError,
    HoldfastWarning,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session, Store

_T = TypeVar("_T")
_STALE = 600
"""Seconds after which a temporary file is left over from a process that was killed."""


@dataclass(frozen=True)
class CheckpointMetadata:
    """What a list of checkpoints says of each one, without its state. The time is UTC, without a zone."""

    checkpoint_id: str
    agent_id: str
    timestamp: datetime
    step_number: int
    status: str
    size_bytes: int
    parent_checkpoint_id: str | None
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON, the time as ISO text."""
        return asdict(self) | {"timestamp": self.timestamp.isoformat()}


class StorageBackend(ABC):
    """A place for agent states: five methods, to be written for any storage you have."""

    @abstractmethod
    async def save(self, state: AgentState) -> str:
        """Store a state under its `checkpoint_id`, which is set; return that id."""

    @abstractmethod
    async def load(self, checkpoint_id: str) -> AgentState:
        """The state of a checkpoint. Raises NotFoundError where there is none."""

    @abstractmethod
    async def list(self, agent_id: str) -> builtins.list[CheckpointMetadata]:
        """The checkpoints of an agent, newest first."""

    @abstractmethod
    async def delete(self, checkpoint_id: str) -> None:
        """Remove a checkpoint. Raises NotFoundError where there is none."""

    @abstractmethod
    async def exists(self, checkpoint_id: str) -> bool:
        """Whether there is such a checkpoint."""


def new_id() -> str:
    """A new checkpoint id, never given before."""
    return f"ckpt_{uuid.uuid4().hex}"


def missing(checkpoint_id: str) -> NotFoundError:
    """The error for an id that names nothing."""
    return NotFoundError(
        f"there is no checkpoint {checkpoint_id!r}",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint="list_checkpoints(agent_id) has those that there are",
        checkpoint=checkpoint_id,
    )


class StoreStorage(StorageBackend):
    """A holdfast store as storage: a session per agent, and everything else that a store can do.

    A state is saved with its `checkpoint_id` as key, so `key:<id>` names it on the command line. Its
    `parent_checkpoint_id` becomes the parent, and a fork a branch of its own.

    Args:
        store: An open Store, or what `holdfast.open` takes; None is the usual store of the working folder.
        keep: How many checkpoints an agent keeps; older ones are removed for good with each save. 0: all.
    """

    def __init__(self, store: Store | str | Path | None = None, *, keep: int = 0) -> None:
        import holdfast
        from holdfast import Store

        self._own = not isinstance(store, Store)
        self.store: Store = store if isinstance(store, Store) else holdfast.open(store)
        self._keep = keep

    def close(self) -> None:
        """Close the store, if this object opened it."""
        if self._own:
            self.store.close()

    async def save(self, state: AgentState) -> str:
        """Save it as a checkpoint of the session that has its agent's name."""
        if not state.agent_id:
            raise InvalidInputError(
                "the state has no agent_id, and each agent has a session of its own",
                code=ErrorCode.BAD_ARGUMENT,
                hint='AgentState(agent_id="agent1")',
            )
        key = state.checkpoint_id or new_id()
        forked = bool(state.__dict__.get("_forked"))
        # A copy of its own: what the agent does while this waits is not part of the checkpoint.
        return await _in_thread(
            partial(self._save, AgentState.from_dict(state.to_dict()), key, forked=forked)
        )

    def _save(self, state: AgentState, key: str, *, forked: bool) -> str:
        from holdfast import Keep

        given: dict[str, Any] = {}
        agent, branch = state.agent_id, "main"
        parent = self._find(state.parent_checkpoint_id) if state.parent_checkpoint_id else None
        if parent is not None and parent.session == agent:
            branch, given["parent"] = parent.branch, parent
            if forked or not self._is_tip(parent):
                # Or one of several states that go on from the same checkpoint.
                branch, given["expect"] = f"fork-{key.removeprefix('ckpt_')[:12]}", None
        keep = Keep(at_most=self._keep) if self._keep else None
        state.save(self.store.session(agent, agent=agent, branch=branch, keep=keep), key=key, **given)
        return key

    async def load(self, checkpoint_id: str) -> AgentState:
        """The state, with its own id, time and parent."""
        return await _in_thread(partial(self._load, checkpoint_id))

    def _load(self, checkpoint_id: str) -> AgentState:
        found = self._get(checkpoint_id)
        session = self._session(found)
        state = AgentState.load(session, found)
        state.checkpoint_id = found.key or found.id
        if found.parent is not None and session.exists(found.parent):
            state.parent_checkpoint_id = session.checkpoint(found.parent).key or found.parent
        return state

    async def list(self, agent_id: str) -> builtins.list[CheckpointMetadata]:
        """The checkpoints of the agent, newest first; no state is read."""
        return await _in_thread(partial(self._list, agent_id))

    def _list(self, agent_id: str) -> builtins.list[CheckpointMetadata]:
        found = self.store.find(agent=agent_id)
        names = {each.id: each.key or each.id for each in found}
        return [
            CheckpointMetadata(
                checkpoint_id=names[each.id],
                agent_id=agent_id,
                timestamp=naive_utc(each.created_at),
                step_number=each.step or 0,
                status=each.status,
                size_bytes=each.size_bytes,
                parent_checkpoint_id=each.parent and names.get(each.parent, each.parent),
                metadata=each.metadata,
            )
            for each in found
        ]

    async def delete(self, checkpoint_id: str) -> None:
        """Remove it; `holdfast undo` brings it back until gc."""
        await _in_thread(partial(self._delete, checkpoint_id))

    def _delete(self, checkpoint_id: str) -> None:
        found = self._get(checkpoint_id)
        self._session(found).delete(found, force=True)

    async def exists(self, checkpoint_id: str) -> bool:
        """Whether a checkpoint has this id."""
        return await _in_thread(lambda: self._find(checkpoint_id) is not None)

    def _session(self, checkpoint: Checkpoint) -> Session:
        return self.store.session(checkpoint.session, branch=checkpoint.branch)

    def _is_tip(self, checkpoint: Checkpoint) -> bool:
        [newest] = self._session(checkpoint).log(checkpoint.branch, limit=1)
        return newest.id == checkpoint.id

    def _get(self, checkpoint_id: str) -> Checkpoint:
        found = self._find(checkpoint_id)
        if found is None:
            raise missing(checkpoint_id)
        return found

    def _find(self, checkpoint_id: str) -> Checkpoint | None:
        """By key; or by the store's own id, for what was saved without a manager."""
        found = self.store.find(key=checkpoint_id, limit=1)
        if found:
            return found[0]
        if len(checkpoint_id) == 64:
            for each in self.store.sessions():
                session = self.store.session(each.id)
                if session.exists(checkpoint_id):
                    return session.checkpoint(checkpoint_id)
        return None


class FilesystemStorage(StorageBackend):
    """A folder of JSON Lines files, one checkpoint a line and a file: `cat *.jsonl` is a stream of all of them.

    A file is written beside its place, flushed to the disk and renamed, so that a crash leaves all of a checkpoint or
    nothing of it. The inherited `list`, `exists` and `delete` also know `.json` files and files with `.gz` behind,
    which subclasses may write into `base_dir` by the checkpoint's id.

    Args:
        base_dir: The folder; made where there is none.
        compress: Write `.jsonl.gz`.
        debug: Say on stderr where each file is written first.
    """

    SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")

    def __init__(self, base_dir: str | Path, *, compress: bool = False, debug: bool = False) -> None:
        self.base_dir = Path(base_dir)
        self.compress = compress
        self.debug = debug
        self.base_dir.mkdir(parents=True, exist_ok=True)
        self._seen: dict[Path, tuple[tuple[int, int], CheckpointMetadata]] = {}
        """Metadata of files, by what tells whether they changed: each is parsed once."""
        for left in self.base_dir.glob(".*.tmp"):
            if time.time() - left.stat().st_mtime > _STALE:
                left.unlink(missing_ok=True)

    async def save(self, state: AgentState) -> str:
        """Write the file of a state."""
        data = state.to_dict()
        name = state.checkpoint_id or new_id()
        data["checkpoint_id"] = name
        _check_plain(data, "state")
        AgentState.from_dict(data)  # what could not be loaded is not written
        line = json.dumps(data, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        suffix = ".jsonl.gz" if self.compress else ".jsonl"
        path = self.base_dir / f"{_file_name(name)}{suffix}"
        await _in_thread(partial(self._write, path, gzip.compress(line) if self.compress else line))
        return name

    def _write(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        if self.debug:
            sys.stderr.write(f"holdfast: writes {temporary}, then renames it to {path.name}\n")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(self.base_dir)

    async def load(self, checkpoint_id: str) -> AgentState:
        """Read the file of a checkpoint."""
        path = self._path(checkpoint_id)
        return AgentState.from_dict(await _in_thread(partial(_read, path)))

    async def list(self, agent_id: str) -> builtins.list[CheckpointMetadata]:
        """The checkpoints of an agent, newest first. A file that cannot be read is left out, with a warning."""
        return await _in_thread(partial(self._list, agent_id))

    def _list(self, agent_id: str) -> builtins.list[CheckpointMetadata]:
        known = self._seen
        self._seen = {}
        for path in self.base_dir.iterdir():
            if path.name.startswith(".") or not path.name.endswith(self.SUFFIXES):
                continue
            try:
                facts = path.stat()
                version = (facts.st_mtime_ns, facts.st_size)
                old = known.get(path)
                self._seen[path] = old if old and old[0] == version else (version, _metadata(path))
            except FileNotFoundError:
                continue  # removed meanwhile
            except HoldfastError as damage:
                warnings.warn(f"{path.name} is left out: {damage}", HoldfastWarning, stacklevel=2)
        found = [each for _, each in self._seen.values() if each.agent_id == agent_id]
        return sorted(found, key=lambda each: (each.timestamp, each.step_number), reverse=True)

    async def delete(self, checkpoint_id: str) -> None:
        """Remove the file of a checkpoint."""
        path = self._path(checkpoint_id)
        await _in_thread(path.unlink)

    async def exists(self, checkpoint_id: str) -> bool:
        """Whether there is a file of this id."""
        return self._found(checkpoint_id) is not None

    def _found(self, checkpoint_id: str) -> Path | None:
        name = _file_name(checkpoint_id)
        paths = (self.base_dir / f"{name}{suffix}" for suffix in self.SUFFIXES)
        return next((path for path in paths if path.exists()), None)

    def _path(self, checkpoint_id: str) -> Path:
        path = self._found(checkpoint_id)
        if path is None:
            raise missing(checkpoint_id)
        return path


async def _in_thread(operation: Callable[[], _T]) -> _T:
    import anyio.to_thread  # the record alone needs no event loop

    return await anyio.to_thread.run_sync(operation)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
        data = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        data = None
    if not isinstance(data, dict):
        raise IntegrityError(
            f"{path} holds no whole checkpoint",
            code=ErrorCode.ARCHIVE_DAMAGED,
            hint="load an older checkpoint; check the disk's space and the folder's permissions",
            path=str(path),
        )
    return data


def _metadata(path: Path) -> CheckpointMetadata:
    data = AgentState.from_dict(_read(path))
    return CheckpointMetadata(
        checkpoint_id=data.checkpoint_id or path.name.split(".")[0],
        agent_id=data.agent_id,
        timestamp=data.timestamp or datetime.min,  # noqa: DTZ901 - without a zone, as all of them
        step_number=data.step_number,
        status=data.status,
        size_bytes=path.stat().st_size,
        parent_checkpoint_id=data.parent_checkpoint_id,
        metadata=data.metadata,
    )


_NOT_IN_NAMES = frozenset('/\\:*?"<>|\0\n')


def _file_name(checkpoint_id: str) -> str:
    if 0 < len(checkpoint_id) <= 200 and checkpoint_id[0] != "." and not set(checkpoint_id) & _NOT_IN_NAMES:
        return checkpoint_id
    raise InvalidInputError(
        f"checkpoint id {checkpoint_id!r:.80} cannot be the name of a file",
        code=ErrorCode.BAD_NAME,
        hint="leave checkpoint_id out, and the manager makes one",
    )


def _check_plain(value: Any, path: str) -> None:
    """Refuse what JSON would change or lose, with the place that it has."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _not_plain(f"a key of {path}", key)
            _check_plain(item, f"{path}[{key!r}]")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_plain(item, f"{path}[{number}]")
    elif not (
        value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
    ):
        raise _not_plain(path, value)


def _not_plain(path: str, value: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{path} is {value!r:.60}, a {type(value).__name__}, and JSON has no such value",
        code=ErrorCode.VALUE_UNSUPPORTED,
        hint="make it a string, number, list or dict; or use a holdfast store, which keeps every type",
        path=path,
    )


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
