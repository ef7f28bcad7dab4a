"""Branches: carries the experiments of a notebook out on branches of its session."""

from __future__ import annotations

import re
import warnings
from typing import Any

from holdfast import Checkpoint
from holdfast.agents.notebook.part import Item, Part
from holdfast.agents.notebook.restoration import code_of
from holdfast.errors import HoldfastWarning

__all__ = ["Branches"]


class Branches:
    """Carries experiments out on the branches of a notebook's session."""

    def __init__(self, notebook: Any) -> None:
        self._notebook = notebook

    def next_experiment(self) -> int:
        """A number that no experiment of the session has."""
        names = [each.name for each in self._notebook.session.branches()]
        return max((int(found[1]) for name in names if (found := re.match(r"x(\d+)-", name))), default=0) + 1

    def begin(self, experiment: Item) -> None:
        """Fork, and go there."""
        nb = self._notebook
        nb._save(
            f"Experiment {experiment['id']}: {experiment['name']}"[:200], tags=(), trigger="auto:experiment"
        )
        nb.session.fork("@", experiment["branch"])
        self._enter(experiment["branch"])

    def go(self, branch: str, *, code: bool) -> None:
        """Save, and go to another branch."""
        safety = self._leave(code=code)
        if code:
            self._bring_code(safety, branch)
        self._enter(branch)

    def bring_in(self, experiment: Item) -> Any:
        """Merge a branch into its parent, and go there."""
        nb = self._notebook
        self._leave()
        nb.session.switch(experiment["parent"], remember=True)
        report = nb.session.merge(
            experiment["branch"],
            resolve=_resolve,
            message=f"Merged experiment {experiment['id']}",
            tags=["branch_merged"],
        )
        self._enter(experiment["branch"] if report.conflicts else experiment["parent"])
        if not report.conflicts:
            base, ours, theirs = (
                nb._stored(each)["metrics"] for each in (report.base, report.ours, report.theirs)
            )
            # Two counts that both went from 1 to 2 are no conflict to a merge, and make 3.
            nb._doc["metrics"].update({name: ours[name] + theirs[name] - base[name] for name in base})
        return report

    def give_up(self, experiment: Item, *, code: bool) -> None:
        """Go back to the parent of a branch."""
        safety = self._leave(code=code)
        if code:
            self._bring_code(safety, experiment["parent"])
        self._enter(experiment["parent"])

    def _leave(self, *, code: bool = False) -> Checkpoint:
        made: Checkpoint = self._notebook._save(
            "Before leaving the branch",
            tags=("safety", "restore") if code else ("safety",),
            trigger="auto:safety",
        )
        return made

    def _enter(self, branch: str) -> None:
        nb = self._notebook
        nb.session.switch(branch, remember=True)
        nb._open()
        if nb._doc["current_branch"] != branch:
            nb._doc["current_branch"] = branch
        for part in (
            *(each for each in nb._systems.values() if isinstance(each, Part)),
            nb.notes,
            nb.commands,
        ):
            nb._join(part)

    def _bring_code(self, safety: Checkpoint, branch: str) -> None:
        """Bring the files to where a branch has them; journalled like a restore."""
        nb = self._notebook
        target = next(each.head for each in nb.session.branches() if each.name == branch)
        stored = nb._stored(target)
        if nb.workspace is None or stored["workspace"] is None:
            return
        order = {"target": target.id, "what": "code", "paths": None, "state": "started"}
        nb.restoration.mark(safety, order)
        report = nb.restoration.restore_code(code_of(stored), None, None)
        nb.restoration.mark(safety, {**order, "state": "done"})
        for path, reason in report.conflicts.items():
            warnings.warn(f"{path} was left alone: {reason}", HoldfastWarning, stacklevel=4)


def _resolve(conflict: Any) -> Any:
    """Decide on what both sides of an experiment always change; everything else stays a conflict."""
    top = conflict.path.partition(".")[0]
    if top in ("metrics", "code_changes", "workspace", "current_branch"):
        # Counts are added up later, and the folder is as the experiment left it: it is captured again.
        return conflict.theirs
    return conflict
