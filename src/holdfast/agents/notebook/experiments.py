"""The experiment manager: ideas that are tried on a branch, and what came of them.

Alone it keeps the record. Connected to a notebook, each experiment is a branch of the notebook's session: what is
found there stays there until it is merged, and an experiment that is abandoned leaves its lesson behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from holdfast.agents.notebook.part import Item, Part, plain
from holdfast.errors import ErrorCode, InvalidInputError

__all__ = ["BranchDriver", "ExperimentManager"]


class BranchDriver(Protocol):
    """What carries experiments out: a notebook."""

    def next_experiment(self) -> int:
        """A number that no experiment of the session has."""
        ...

    def begin(self, experiment: Item) -> None:
        """Fork, and go there."""
        ...

    def go(self, branch: str, *, code: bool) -> None:
        """Save, and go to another branch."""
        ...

    def bring_in(self, experiment: Item) -> Any:
        """Merge a branch into its parent, and go there; conflicts are in what is returned."""
        ...

    def give_up(self, experiment: Item, *, code: bool) -> None:
        """Go back to the parent of a branch."""
        ...


class ExperimentManager(Part):
    """Experiments, each a branch."""

    keys: ClassVar[tuple[str, ...]] = ("branches",)
    noun = "experiment"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.driver: BranchDriver | None = None
        self._data.setdefault("current_branch", "main")

    @property
    def current_branch(self) -> str:
        """The branch that work goes on."""
        return str(self._data["current_branch"])

    def snapshot(self) -> dict[str, Any]:
        """Return the experiments and the current branch."""
        return {**super().snapshot(), "current_branch": self.current_branch}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take the experiments of a snapshot in the place of those that are here."""
        super().restore(value)
        self._data["current_branch"] = value.get("current_branch", "main")

    def start(self, name: str, *, purpose: str = "", code: bool = False) -> str:
        """Begin an experiment, go to its branch and return its id.

        Args:
            name: What it is called.
            purpose: What it is to show.
            code: The files are part of it: abandoning it, or going to another one, brings them back.
        """
        number = self.driver.next_experiment() if self.driver else len(self._data["branches"]) + 1
        item: Item = {
            "id": f"x{number}",
            "name": self._text(name, "name"),
            "purpose": self._text(purpose, "purpose") if purpose else "",
            "branch": f"x{number}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')[:40]}".rstrip("-"),
            "parent": self.current_branch,
            "status": "active",
            "code": code,
            "lesson": "",
            "created_at": self.clock(),
            "ended_at": None,
        }
        self._data["branches"][item["id"]] = item
        if self.driver is not None:
            self.driver.begin(item)
        else:
            self._data["current_branch"] = item["branch"]
        self._fire("experiment.switched", item)
        return str(item["id"])

    def switch(self, experiment: str) -> Item:
        """Go to an experiment, or back to a branch that is none, such as `main`."""
        found = self._data["branches"].get(experiment)
        branch = found["branch"] if found is not None else experiment
        known = {"main", *(each["branch"] for each in self._data["branches"].values())}
        known |= {each["parent"] for each in self._data["branches"].values()}
        if branch not in known:
            self._get("branches", experiment)
        if self.driver is not None:
            self.driver.go(branch, code=bool(found is not None and found["code"]))
        else:
            self._data["current_branch"] = branch
        self._fire("experiment.switched", {"branch": branch})
        return {"branch": branch}

    def merge(self, experiment: str) -> Any:
        """Bring what an experiment found into the branch that it left, and go there.

        Returns:
            With a notebook, the report of the merge: as long as it has conflicts, nothing was merged.
        """
        item = self._active(experiment)
        report = self.driver.bring_in(item) if self.driver else None
        if report is not None and report.conflicts:
            return report
        self._end(experiment, item, "merged", "")
        self._fire("experiment.merged", self.get(experiment))
        return report

    def abandon(self, experiment: str, lesson: str) -> Item:
        """Leave an experiment; what it taught is kept on the branch that it left."""
        item = self._active(experiment)
        lesson = self._text(lesson, "lesson")
        if self.driver is not None:
            self.driver.give_up(item, code=item["code"])
        self._end(experiment, item, "abandoned", lesson)
        self._fire("experiment.abandoned", self.get(experiment))
        return self.get(experiment)

    def get(self, experiment: str) -> Item:
        """Return an experiment as a plain dict."""
        item: Item = plain(self._get("branches", experiment))
        return item

    def all(self) -> list[Item]:
        """Return the experiments, oldest first."""
        return [plain(each) for each in self._data["branches"].values()]

    def on_switch(self, callback: Callable[[Item], Any]) -> None:
        """Call a function when another branch is the current one."""
        self.on("experiment.switched", callback)

    def on_merged(self, callback: Callable[[Item], Any]) -> None:
        """Call a function with each experiment that is merged."""
        self.on("experiment.merged", callback)

    def _active(self, experiment: str) -> Item:
        item = self.get(experiment)
        if item["status"] != "active":
            raise InvalidInputError(
                f"experiment {experiment} was {item['status']} already",
                code=ErrorCode.BAD_ARGUMENT,
                hint="start a new one",
                id=experiment,
            )
        return item

    def _end(self, experiment: str, item: Item, status: str, lesson: str) -> None:
        self._data["current_branch"] = item["parent"]
        # By now this may be another state than the one the experiment was started in.
        kept = self._data["branches"].setdefault(experiment, item)
        kept["status"] = status
        kept["lesson"] = lesson
        kept["ended_at"] = self.clock()
