"""Restore: bring the files of a working folder to a captured state, file by file, without losing what is there.

A plan says what would be added, modified and deleted. Before each write the file is compared with what the plan saw:
one that changed meanwhile is left alone and reported. HEAD, the index, the stash and ignored files are never touched;
nothing is deleted that the safety checkpoint or git does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.workspace import git
from holdfast.workspace.code import CodeState, Workspace
from holdfast.workspace.files import (
    ABSENT,
    FileState,
    Unreadable,
    check_path,
    read_file,
    remove_file,
    temporary_of,
    write_file,
)

__all__ = ["Action", "RestorePlan", "RestoreReport", "apply_plan", "plan_restore"]


@dataclass(frozen=True)
class Action:
    """One file to change: A adds it, M modifies it, D deletes it."""

    op: str
    path: str
    before: FileState
    after: FileState


@dataclass
class RestorePlan:
    """What a restore would do."""

    root: Path
    actions: list[Action] = field(default_factory=list)
    conflicts: dict[str, str] = field(default_factory=dict)
    """By path: what will be left alone, and why."""
    notes: list[str] = field(default_factory=list)
    considered: list[str] = field(default_factory=list)
    """Every file that was compared."""

    def to_dict(self) -> dict[str, Any]:
        """The plan as data, without the bytes of files."""
        counts = {op: sum(each.op == op for each in self.actions) for op in "AMD"}
        return {
            "root": str(self.root),
            "files": [{"op": each.op, "path": each.path} for each in self.actions],
            "counts": counts,
            "conflicts": dict(self.conflicts),
            "notes": list(self.notes),
        }


@dataclass
class RestoreReport:
    """What a restore did."""

    changed: list[tuple[str, str]] = field(default_factory=list)
    """(A, M or D; path) of each file that was written or removed."""
    conflicts: dict[str, str] = field(default_factory=dict)
    """By path: what was left alone, and why."""
    notes: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every file is as it was captured."""
        return not self.conflicts

    def to_dict(self) -> dict[str, Any]:
        """The report as data."""
        return {
            "changed": [{"op": op, "path": path} for op, path in self.changed],
            "conflicts": dict(self.conflicts),
            "notes": list(self.notes),
            "complete": self.complete,
        }


def plan_restore(
    workspace: Workspace,
    target: CodeState,
    current: CodeState,
    *,
    paths: Iterable[str] | None = None,
    unless_changed_since: CodeState | None = None,
) -> RestorePlan:
    """Work out what makes the folder equal to a captured state.

    Args:
        workspace: The folder.
        target: What it should become.
        current: What it is: the capture that the safety checkpoint has.
        paths: Only these files, and files in these folders.
        unless_changed_since: Leave files alone that are neither as in this state nor as in the target: somebody
            worked on them since.

    Raises:
        InvalidInputError: The captured state has a path that leads out of the folder (`bad-path`).
    """
    for path in target.patches:
        check_path(path)
    plan = RestorePlan(workspace.root)
    wanted, have = _Side(workspace.root, target, current), _Side(workspace.root, current, current)
    since = None if unless_changed_since is None else _Side(workspace.root, unless_changed_since, current)
    candidates = {*target.patches, *current.patches}
    candidates |= set(_moved_files(workspace.root, target, current, plan))
    if unless_changed_since is not None:
        candidates |= set(unless_changed_since.patches)
    chosen = None if paths is None else [PurePosixPath(each) for each in paths]
    asked = [
        path
        for path in sorted(candidates)
        if chosen is None or any(PurePosixPath(path).is_relative_to(c) for c in chosen)
    ]
    plan.considered = asked
    sides = [side for side in (wanted, have, since) if side is not None]
    for side in sides:
        side.prepare(asked)
    for path in asked:
        try:
            action = _compare(path, wanted, have, since)
        except Unreadable as reason:
            plan.conflicts[path] = str(reason)
        else:
            if action is not None:
                plan.actions.append(action)
    # What goes makes room first: a file may take the place of a folder.
    plan.actions.sort(key=lambda each: (each.op != "D", each.path))
    plan.notes += wanted.notes
    return plan


def _compare(path: str, wanted: _Side, have: _Side, since: _Side | None) -> Action | None:
    skipped = wanted.state.skipped.get(path) or have.state.skipped.get(path)
    if skipped is not None:
        raise Unreadable(f"it was not captured: {skipped}")
    after = wanted.at(path)
    before = have.on_disk(path)
    if after is None or before.same(after):
        return None
    if since is not None and (known := since.at(path)) is not None and not before.same(known):
        raise Unreadable("it was changed since")
    if before.kind != "absent" and not have.holds(path):
        raise Unreadable("it is ignored by git, or was not captured: nothing else has it")
    op = "D" if after.kind == "absent" else "A" if before.kind == "absent" else "M"
    return Action(op, path, before, after)


class _Side:
    """A captured state, with git for the files that it does not have itself."""

    def __init__(self, root: Path, state: CodeState, current: CodeState) -> None:
        self.root = root
        self.state = state
        self.notes: list[str] = []
        self._entries: dict[str, str] = {}
        self._tracked = {name for name, each in state.repositories.items() if each.commit is not None}
        for name in sorted(self._tracked):
            commit = state.repositories[name].commit or ""
            gone = name not in current.repositories
            if gone or not git.has_commit(root / name, commit):
                what = "the repository is gone" if gone else f"commit {commit[:12]} is gone"
                self.notes.append(f"{name or '.'}: {what}; only files that were captured can come back")
                self._tracked.discard(name)

    def prepare(self, paths: Iterable[str]) -> None:
        """Ask git once for all the files that this side may need."""
        by_repository: dict[str, list[str]] = {}
        for path in paths:
            if path not in self.state.patches and (name := self._repository(path)) in self._tracked:
                by_repository.setdefault(name, []).append(path[len(name) + 1 :] if name else path)
        for name, inside in by_repository.items():
            commit = self.state.repositories[name].commit
            assert commit is not None
            for path, entry in git.tree_entries(self.root / name, commit, inside).items():
                self._entries[f"{name}/{path}" if name else path] = entry

    def at(self, path: str) -> FileState | None:
        """What this side has at a path; None where nobody knows any more."""
        if (found := self.state.file(path)) is not None:
            return found
        if not self.state.repositories:
            return ABSENT
        name = self._repository(path)
        if name not in self._tracked:
            # A repository without a commit has nothing but what was captured.
            known = name in self.state.repositories and self.state.repositories[name].commit is None
            return ABSENT if known else None
        entry = self._entries.get(path)
        if entry is None:
            return ABSENT
        mode, oid = entry.split(" ")
        inside = path[len(name) + 1 :] if name else path
        content = git.read_blob(self.root / name, oid, inside)
        if mode == "120000":
            return FileState("symlink", None, content)
        return FileState("file", None, content, executable=mode == "100755")

    def holds(self, path: str) -> bool:
        """Say whether the bytes that are on disk are also here or in git."""
        return path in self.state.patches or path in self._entries

    def on_disk(self, path: str) -> FileState:
        """What is at the path, as the capture has it or, for a clean file, as it is now."""
        return self.state.file(path) or read_file(self.root, path)

    def _repository(self, path: str) -> str:
        """The innermost repository that a path lies in."""
        inside = [name for name in self.state.repositories if not name or path.startswith(f"{name}/")]
        return max(inside, key=len, default="")


def _moved_files(root: Path, target: CodeState, current: CodeState, plan: RestorePlan) -> Iterator[str]:
    """Yield the files that differ because HEAD moved."""
    for name, there in current.repositories.items():
        then = target.repositories.get(name)
        if then is None:
            if name:
                plan.notes.append(f"{name}: this repository was not there then; it is left alone")
            continue
        if there.under_way:
            plan.notes.append(f"{name or '.'}: a {there.under_way} is under way; the index is left as it is")
        if then.commit and there.commit and git.has_commit(root / name, then.commit):
            for path in git.changed_between(root / name, there.commit, then.commit):
                yield f"{name}/{path}" if name else path


def apply_plan(plan: RestorePlan, *, step: Callable[[Action], None] | None = None) -> RestoreReport:
    """Carry a plan out. A file that is no longer as the plan saw it is left alone, and is in the report.

    It may be stopped anywhere and run again: what is done already is seen and passed over.

    Args:
        plan: What to do.
        step: Called before each file.
    """
    report = RestoreReport(conflicts=dict(plan.conflicts), notes=list(plan.notes))
    for action in plan.actions:
        if step is not None:
            step(action)
        try:
            _carry_out(plan.root, action)
        except Unreadable as reason:
            report.conflicts[action.path] = str(reason)
        else:
            report.changed.append((action.op, action.path))
    return report


def remove_leftovers(root: Path, paths: Iterable[str]) -> None:
    """Remove the temporary files that an interrupted restore of these files left behind."""
    for path in paths:
        left = temporary_of(root / path)
        if left.is_file() or left.is_symlink():
            left.unlink()


def _carry_out(root: Path, action: Action) -> None:
    now = read_file(root, check_path(action.path))
    if now.same(action.after):
        return
    if not now.same(action.before):
        raise Unreadable("it changed while the restore was running")
    if action.after.kind == "absent":
        remove_file(root, action.path)
    else:
        write_file(root, action.path, action.after)
