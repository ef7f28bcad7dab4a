"""Code: what the files of a working folder are at a moment, and how that differs from what git already has.

Git says which files differ from HEAD; their bytes are read by us, as they are on disk. Clean tracked files are not
read: git has them, under the commit that is recorded. A folder without git is read whole. Nothing in the folder or in
git is changed by looking.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.workspace import git
from holdfast.workspace.environment import capture_environment
from holdfast.workspace.files import FileState, Unreadable, is_temporary, read_file
from holdfast.workspace.secrets import is_secret_file

__all__ = ["CodeState", "Repository", "Workspace"]

MAX_FILE: Final = 10 * 2**20
MAX_TOTAL: Final = 200 * 2**20
# Folders that can be made again, or that belong to other tools; left out where there is no git to say so.
_LEFT_OUT: Final = frozenset(
    {".cache", ".git", ".hg", ".holdfast", ".hypothesis", ".idea", ".mypy_cache", ".nox", ".pytest_cache",
     ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__", "build", "dist", "node_modules", "target", "venv"}
)  # fmt: skip
_STORE_MARK: Final = b"hldf"
"""The application id in the header of a store's file (docs/spec/sqlite.md)."""
_BESIDE_A_STORE: Final = ("-wal", "-shm", "-journal")
_RACY: Final = 2.0
"""Seconds. A file that was written this shortly before it was read may change again without its times showing it."""


@dataclass(frozen=True)
class Repository:
    """Where a git repository in the folder stands."""

    commit: str | None = None
    branch: str | None = None
    under_way: str | None = None


@dataclass
class CodeState:
    """The code of a working folder at a moment."""

    root: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    """By folder: "" is the whole one, others are nested in it. Empty where there is no git."""
    patches: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By path: what is there that git does not have, with its bytes; `kind` is file, symlink or absent."""
    env_vars: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """By path: what was not captured, and why. A restore never touches these."""

    @property
    def commit_hash(self) -> str | None:
        """The commit that the outermost repository is at."""
        top = self.repositories.get("")
        return top.commit if top else None

    def file(self, path: str) -> FileState | None:
        """What was captured at a path; None where that is what git has."""
        found = self.patches.get(path)
        return None if found is None else FileState.from_dict(found)

    def changes(self) -> dict[str, Any] | None:
        """What differs from git as data: `commit_hash`, `patches`, `env_vars`; None where nothing does."""
        if not self.patches:
            return None
        return {"commit_hash": self.commit_hash, "patches": self.patches, "env_vars": self.env_vars}

    def place(self) -> dict[str, Any]:
        """Where the code stands, as data: the folder, its repositories, what was skipped."""
        return {
            "root": self.root,
            "repositories": {name: dict(vars(each)) for name, each in self.repositories.items()},
            "env_vars": self.env_vars,
            "skipped": self.skipped,
        }

    @classmethod
    def from_data(cls, place: Mapping[str, Any], changes: Mapping[str, Any] | None) -> CodeState:
        """The state that `place` and `changes` describe."""
        return cls(
            root=str(place["root"]),
            repositories={name: Repository(**each) for name, each in place["repositories"].items()},
            patches=dict(changes["patches"]) if changes else {},
            env_vars=dict(place["env_vars"]),
            skipped=dict(place["skipped"]),
        )


@dataclass
class _Seen:
    """A file as it was read last, and the times it had then."""

    times: tuple[int, ...]
    entry: dict[str, Any]


class Workspace:
    """A working folder whose code can be captured and restored.

    Args:
        folder: The folder; where it lies in a git repository, the whole repository is meant.
        allow_env: Names of variables to keep beside the usual ones.
        max_file: Bytes of the largest file that is captured.
        max_total: Bytes of all files that are captured.

    Raises:
        InvalidInputError: It is no folder, or it is the home folder or the root of the file system.
    """

    def __init__(
        self,
        folder: str | Path = ".",
        *,
        allow_env: Iterable[str] = (),
        max_file: int = MAX_FILE,
        max_total: int = MAX_TOTAL,
    ) -> None:
        start = Path(folder).resolve()
        if not start.is_dir():
            raise InvalidInputError(
                f"{start} is not a folder",
                code=ErrorCode.BAD_ARGUMENT,
                hint="name the folder of your project",
            )
        self.root = next((each for each in (start, *start.parents) if (each / ".git").exists()), start)
        if self.root in (Path.home(), Path(self.root.anchor)):
            raise InvalidInputError(
                f"{self.root} is too much to capture: it is your home folder or the whole file system",
                code=ErrorCode.BAD_ARGUMENT,
                hint="name the folder of one project",
            )
        self.allow_env = tuple(allow_env)
        self.max_file = max_file
        self.max_total = max_total
        self._seen: dict[str, _Seen] = {}

    def capture(self) -> CodeState:
        """Return the code as it is now.

        Raises:
            UnsupportedError: git refuses to look at the repository (`workspace-unusable`).
        """
        state = CodeState(str(self.root), env_vars=capture_environment(allow=self.allow_env))
        room = self.max_total
        seen: dict[str, _Seen] = {}
        for path, change, index in sorted(self._candidates("", state), key=lambda each: each[0]):
            if self._is_ours(path):
                continue
            try:
                found = self._read(path, seen)
            except Unreadable as reason:
                state.skipped[path] = str(reason)
                continue
            if change == "hidden" and index is not None and _is_clean(found, index):
                continue
            size = len(found.get("content", b""))
            if size > room:
                state.skipped[path] = f"all files together have more than {self.max_total} bytes"
                continue
            room -= size
            state.patches[path] = {"change": change, "index": index, **found}
        self._seen = seen
        return state

    def _candidates(self, prefix: str, state: CodeState) -> Iterator[tuple[str, str, str | None]]:
        """Yield (path, change, index entry) of what git does not have, nested repositories included."""
        folder = self.root / prefix
        git_dir = git.find_git_dir(folder)
        if git_dir is None:
            yield from self._walk(prefix, state)
            return
        said = git.status(folder, git_dir)
        state.repositories[prefix.rstrip("/")] = Repository(said.commit, said.branch, said.under_way)
        untracked = {each.path for each in said.files if each.change == "untracked"}
        for each in said.files:
            # A file that was removed from the index and is still there is listed twice.
            if each.change == "untracked" or each.path not in untracked:
                yield prefix + each.path, each.change, each.index
        for name in said.nested:
            if git.find_git_dir(folder / name) is not None:
                yield from self._candidates(f"{prefix}{name}/", state)
            elif (folder / name).is_dir():
                yield from self._walk(f"{prefix}{name}/", state)

    def _walk(self, prefix: str, state: CodeState) -> Iterator[tuple[str, str, str | None]]:
        try:
            entries = sorted(os.scandir(self.root / prefix), key=lambda each: each.name)
        except OSError as error:
            state.skipped[prefix.rstrip("/")] = error.strerror or str(error)
            return
        for entry in entries:
            path = prefix + entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield path, "untracked", None
            elif git.find_git_dir(Path(entry.path)) is not None:
                yield from self._candidates(f"{path}/", state)
            elif entry.name in _LEFT_OUT:
                if entry.name != ".holdfast":
                    state.skipped[path] = "folders of this name can be made again"
            else:
                yield from self._walk(f"{path}/", state)

    def _is_ours(self, path: str) -> bool:
        """Say whether a file belongs to holdfast: a store that saved itself would grow with every checkpoint."""
        parts = path.split("/")
        if ".holdfast" in parts or is_temporary(parts[-1]):
            return True
        base = next((path.removesuffix(end) for end in _BESIDE_A_STORE if path.endswith(end)), path)
        if base == path and not path.endswith(".db"):
            return False
        try:
            with (self.root / base).open("rb") as file:
                head = file.read(72)
        except OSError:
            return False
        return head.startswith(b"SQLite format 3\0") and head[68:] == _STORE_MARK

    def _read(self, path: str, seen: dict[str, _Seen]) -> dict[str, Any]:
        place = self.root / path
        if is_secret_file(path) and os.path.lexists(place):
            raise Unreadable("by its name it holds secrets")
        times: tuple[int, ...] = ()
        with suppress(OSError):
            about = os.lstat(place)
            times = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino, about.st_mode)
        known = self._seen.get(path)
        if known is None or not times or known.times != times:
            entry = read_file(self.root, path, limit=self.max_file).to_dict()
            known = _Seen(times, entry)
        if times and time.time() - max(times[0], times[1]) / 1e9 > _RACY:
            seen[path] = known
        return known.entry


def _is_clean(found: dict[str, Any], index: str) -> bool:
    """Say whether a hidden file is as the index has it, or left out of a sparse checkout."""
    mode, oid = index.split(" ")
    if found["kind"] == "absent":
        return True
    digest = hashlib.sha1 if len(oid) == 40 else hashlib.sha256
    content: bytes = found["content"]
    if digest(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() != oid:
        return False
    return found["kind"] == "symlink" or bool(found["mode"] & 0o100) == (mode == "100755")
