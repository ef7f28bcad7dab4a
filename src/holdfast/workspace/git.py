"""Git, asked only what it knows about a working folder; nothing of it is ever changed.

Each call runs with locks, hooks and the file-system monitor switched off, and none writes: no index refresh, no new
object, no ref. Names are bytes to git, and come back as `os.fsdecode` has them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.errors import ErrorCode, UnsupportedError

__all__ = [
    "GitFile",
    "GitStatus",
    "changed_between",
    "find_git_dir",
    "has_commit",
    "read_blob",
    "status",
    "tree_entries",
]

_OPTIONS: Final = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=false",
)
_UNDER_WAY: Final = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "BISECT_LOG": "bisect",
}
_GITLINK: Final = "160000"
_NO_MODE: Final = b"000000"


@dataclass(frozen=True)
class GitFile:
    """A file that differs from HEAD, or that git does not track."""

    path: str
    change: str
    """modified, added, deleted, untracked, conflicted or hidden (assume-unchanged or skip-worktree)."""
    index: str | None = None
    """`mode oid` of the index entry, where it differs from HEAD."""


@dataclass
class GitStatus:
    """What git says about one repository."""

    commit: str | None = None
    branch: str | None = None
    under_way: str | None = None
    """A merge, rebase, cherry-pick, revert or bisect that is not finished."""
    files: list[GitFile] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    """Folders in it that are repositories of their own."""


def find_git_dir(folder: Path) -> Path | None:
    """Return the git directory of a working tree whose top is this folder; None where it is none."""
    place = folder / ".git"
    if place.is_dir():
        return place
    if place.is_file():
        text = place.read_text(encoding="utf-8", errors="surrogateescape")
        if text.startswith("gitdir:"):
            return (folder / text.removeprefix("gitdir:").strip()).resolve()
    return None


def status(root: Path, git_dir: Path) -> GitStatus:
    """Return what differs from HEAD in a working tree, untracked files included, ignored ones not.

    Raises:
        UnsupportedError: git is not installed, or refuses to look at this repository (`workspace-unusable`).
    """
    # Both at once: each of them reads the whole index.
    listing = _start(
        root,
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "-uall",
        "--no-renames",
        "--ignore-submodules=none",
    )
    flags = _start(root, "ls-files", "-v", "-s", "-z")
    found = GitStatus(
        under_way=next((what for name, what in _UNDER_WAY.items() if (git_dir / name).exists()), None)
    )
    # Both are read to their end before one may be refused.
    listed, flagged = listing.run(), flags.run()
    for line in _split(root, listed):
        _take(found, line)
    known = {each.path for each in found.files}
    for line in _split(root, flagged):
        # `H` is the usual state of a tracked file; small letters and `S` hide changes from status.
        if line[:1] not in (b"H", b"M"):
            kind, _, name = line.partition(b"\t")
            path = os.fsdecode(name)
            if path not in known and kind.split()[1].decode() != _GITLINK:
                found.files.append(GitFile(path, "hidden", index=" ".join(kind.decode().split()[1:3])))
    return found


def _take(found: GitStatus, line: bytes) -> None:
    kind = line[:1]
    if kind == b"#":
        name, _, value = line[2:].partition(b" ")
        if name == b"branch.oid" and value != b"(initial)":
            found.commit = value.decode()
        elif name == b"branch.head" and value != b"(detached)":
            found.branch = os.fsdecode(value)
    elif kind == b"?":
        path = os.fsdecode(line[2:])
        if path.endswith("/"):
            found.nested.append(path.rstrip("/"))
        else:
            found.files.append(GitFile(path, "untracked"))
    elif kind == b"1":
        _, _, sub, head_mode, index_mode, tree_mode, head_oid, index_oid, name = line.split(b" ", 8)
        path = os.fsdecode(name)
        if sub[:1] == b"S" or _GITLINK.encode() in (index_mode, tree_mode):
            found.nested.append(path)
            return
        staged = (head_mode, head_oid) != (index_mode, index_oid)
        index = f"{index_mode.decode()} {index_oid.decode()}" if staged else None
        change = "deleted" if tree_mode == _NO_MODE else "added" if head_mode == _NO_MODE else "modified"
        found.files.append(GitFile(path, change, index))
    elif kind == b"u":
        found.files.append(GitFile(os.fsdecode(line.split(b" ", 10)[10]), "conflicted"))


def changed_between(root: Path, one: str, other: str) -> dict[str, tuple[str | None, str | None]]:
    """Return the files that two commits have differently: path -> (`mode oid` in one, in the other)."""
    found: dict[str, tuple[str | None, str | None]] = {}
    if one == other:
        return found
    fields = iter(
        _records(_start(root, "diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-ext-diff", one, other))
    )
    for head in fields:
        old_mode, new_mode, old_oid, new_oid, _ = head.decode().lstrip(":").split(" ")
        found[os.fsdecode(next(fields))] = (_blob(old_mode, old_oid), _blob(new_mode, new_oid))
    return found


def has_commit(root: Path, commit: str) -> bool:
    """Say whether the repository still has a commit."""
    return _start(root, "cat-file", "-e", f"{commit}^{{commit}}").run().returncode == 0


def tree_entries(root: Path, commit: str, paths: Iterable[str]) -> dict[str, str]:
    """Return `mode oid` of files in a commit, by path; those that it does not have are left out."""
    wanted = sorted(set(paths))
    found: dict[str, str] = {}
    for begin in range(0, len(wanted), 500):
        names = wanted[begin : begin + 500]
        for line in _records(
            _start(root, "--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, "--", *names)
        ):
            head, _, name = line.partition(b"\t")
            mode, _, oid = head.decode().split(" ")
            if mode != _GITLINK:
                found[os.fsdecode(name)] = f"{mode} {oid}"
    return found


def read_blob(root: Path, oid: str, path: str) -> bytes:
    """Return the bytes of a file as a checkout would write them, with line ends and filters applied."""
    done = _start(root, "cat-file", "--filters", f"--path={path}", oid).run()
    if done.returncode:
        raise _unusable(root, done)
    return done.stdout


class _Call:
    """A git that was started, to be read when its answer is needed."""

    def __init__(self, root: Path, process: subprocess.Popen[bytes]) -> None:
        self.root = root
        self._process = process

    def run(self) -> subprocess.CompletedProcess[bytes]:
        out, err = self._process.communicate()
        return subprocess.CompletedProcess(self._process.args, self._process.returncode, out, err)


def _start(root: Path, *arguments: str) -> _Call:
    # What a hook or a rebase sets would point git at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        process = subprocess.Popen(  # noqa: S603 - a fixed program, and arguments of our own
            ["git", *_OPTIONS, *arguments],  # noqa: S607 - the user's own git
            cwd=root,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise UnsupportedError(
            f"{root} is a git repository, and git cannot be run: {error.strerror}",
            code=ErrorCode.WORKSPACE_UNUSABLE,
            hint="install git, or capture without code",
            folder=str(root),
        ) from error
    return _Call(root, process)


def _records(call: _Call) -> list[bytes]:
    return _split(call.root, call.run())


def _split(root: Path, done: subprocess.CompletedProcess[bytes]) -> list[bytes]:
    if done.returncode:
        raise _unusable(root, done)
    return [each for each in done.stdout.split(b"\0") if each]


def _unusable(root: Path, done: subprocess.CompletedProcess[bytes]) -> UnsupportedError:
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return UnsupportedError(
        f"git refuses to look at {root}: {said[0] if said else f'exit {done.returncode}'}",
        code=ErrorCode.WORKSPACE_UNUSABLE,
        hint="run `git status` there and mend what it says, or capture without code",
        folder=str(root),
    )


def _blob(mode: str, oid: str) -> str | None:
    return None if mode in ("000000", _GITLINK) else f"{mode} {oid}"
