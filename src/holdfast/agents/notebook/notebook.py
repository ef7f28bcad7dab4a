"""Notebook: one debugging session with its systems, its code and its checkpoints.

It is a tracked document of a session: what the systems keep is in it, and a checkpoint writes what changed. It saves by
itself when something happens that one would not want to lose (`TRIGGERS`), and whatever is forgotten, a new process
with the store alone has everything again.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from holdfast import Checkpoint
from holdfast.agents.notebook.beliefs import HELD, BeliefGraph, Contradiction
from holdfast.agents.notebook.board import HypothesisBoard
from holdfast.agents.notebook.branches import Branches
from holdfast.agents.notebook.brief import write_brief
from holdfast.agents.notebook.compare import Comparison, compare_states
from holdfast.agents.notebook.experiments import ExperimentManager
from holdfast.agents.notebook.gaps import GapAnalyzer
from holdfast.agents.notebook.journal import CommandHistory, Notes
from holdfast.agents.notebook.part import Item, Part, now
from holdfast.agents.notebook.recovery import RecoveryPoint, recovery_point
from holdfast.agents.notebook.restoration import RecoveryReport, Restoration
from holdfast.agents.notebook.state import DebugState, empty_state, is_notebook
from holdfast.agents.notebook.systems import BY_EVENT, SYSTEMS, TRIGGERS, check_system
from holdfast.agents.notebook.verifications import VerificationRunner
from holdfast.errors import ErrorCode, HoldfastWarning, InvalidInputError
from holdfast.workspace.code import CodeState, Workspace
from holdfast.workspace.commands import clean_text
from holdfast.workspace.restore import RestorePlan

__all__ = ["SYSTEMS", "TRIGGERS", "Belief", "Notebook", "RecoveryReport"]

_SIGNIFICANT_SECONDS: Final = 300.0
_IDLE_SECONDS: Final = 600.0
"""A pause longer than this counts as this much time in debugging."""

What = Literal["all", "notebook", "code"]


@dataclass(frozen=True)
class Belief:
    """Since when something is believed, and why."""

    id: str
    statement: str
    held: bool
    since: Any
    """The checkpoint with which it was held first, of the time that it is held without a break; None if it is not."""
    why: str
    history: tuple[Item, ...]
    """Each change, oldest first: `checkpoint`, `seq`, `at`, `confidence`, `status`, `reason`."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as data."""
        since = None if self.since is None else self.since.to_dict()
        return {**vars(self), "since": since, "history": [dict(each) for each in self.history]}


class Notebook:
    """A debugging session that is not forgotten.

        nb = Notebook(store.session("kernel-bug"), workspace=Workspace("."))
        h = nb.board.add("the scale is applied twice")
        nb.board.confirm(h, evidence="dividing by it once gives the right numbers")

    Args:
        session: Where it is kept. What is there is taken up.
        workspace: The folder whose code belongs to it; without one no code is captured.
        auto: Save by itself (`TRIGGERS`).
        systems: Which systems of its own it has, by name; others can be connected. All five by default.
        on_conflict: What to do where another writer moved the branch: `fork` goes on with a branch of its own, and
            warns; `raise` leaves it to the caller.
        writable: False to look at a large notebook: it opens several times as fast, and cannot be saved.
        clock: The time; for tests.

    Raises:
        InvalidInputError: The session has a state that is no notebook.
    """

    def __init__(
        self,
        session: Any,
        *,
        workspace: Workspace | None = None,
        auto: bool = True,
        systems: Iterable[str] = tuple(SYSTEMS),
        on_conflict: Literal["fork", "raise"] = "fork",
        writable: bool = True,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.session = session
        self.workspace = workspace
        self.auto = auto
        self._clock = clock or now
        self._on_conflict = on_conflict
        self._writable = writable
        self.restoration = Restoration(self)
        self.board = HypothesisBoard(clock=self._clock)
        self.beliefs = BeliefGraph(clock=self._clock)
        self.gaps = GapAnalyzer(clock=self._clock)
        self.experiments = ExperimentManager(clock=self._clock)
        self.checks = VerificationRunner(clock=self._clock)
        self.notes = Notes(clock=self._clock)
        self.commands = CommandHistory(clock=self._clock)
        own: dict[str, Part] = {
            "hypothesis_board": self.board,
            "belief_graph": self.beliefs,
            "gap_analyzer": self.gaps,
            "experiment_manager": self.experiments,
            "verification_runner": self.checks,
        }
        self._systems: dict[str, Any] = {check_system(name): own[check_system(name)] for name in systems}
        self._open()

    # -- systems -------------------------------------------------------------------------------------------------

    def connect(self, name: str, system: Any) -> None:
        """Connect a system: one of ours, or anything with `snapshot()` and `restore(value)`.

        `snapshot` returns a dict of the groups that the system keeps (`SYSTEMS`), each a list of dicts with an `id`;
        `restore` gets the same. A system of ours that is empty takes up what the session has.

        Raises:
            InvalidInputError: There is no such system, it has neither method, or both it and the session have items.
        """
        groups = SYSTEMS[check_system(name)]
        if isinstance(system, Part):
            stored = any(self._doc[key] for key in groups if key in system.keys)
            if stored and not system.is_empty():
                raise InvalidInputError(
                    f"the session has a {name} already, and the one to connect is not empty",
                    code=ErrorCode.BAD_ARGUMENT,
                    hint="connect an empty one, which takes up what the session has; or use a new session",
                    system=name,
                )
            self._adopt(name, system)
        elif not callable(getattr(system, "snapshot", None)) or not callable(
            getattr(system, "restore", None)
        ):
            raise InvalidInputError(
                f"{type(system).__name__} has no snapshot() and restore()",
                code=ErrorCode.BAD_ARGUMENT,
                hint="give it both: the one returns data, the other takes it",
                system=name,
            )
        self._systems[name] = system

    def connect_hypothesis_board(self, board: Any) -> None:
        """Connect a hypothesis board."""
        self.connect("hypothesis_board", board)

    def connect_belief_graph(self, graph: Any) -> None:
        """Connect a belief graph."""
        self.connect("belief_graph", graph)

    def connect_gap_analyzer(self, analyzer: Any) -> None:
        """Connect a gap analyzer."""
        self.connect("gap_analyzer", analyzer)

    def connect_experiment_manager(self, manager: Any) -> None:
        """Connect an experiment manager."""
        self.connect("experiment_manager", manager)

    def connect_verification_runner(self, runner: Any) -> None:
        """Connect a verification runner."""
        self.connect("verification_runner", runner)

    @property
    def connected(self) -> tuple[str, ...]:
        """The names of the systems that are connected."""
        return tuple(self._systems)

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def checkpoint(self, message: str = "", tags: Iterable[str] = ()) -> Checkpoint:
        """Save by hand, and return the checkpoint."""
        return self._save(message, tags=tags, trigger="manual")

    def auto_checkpoint(self, trigger: str, *, tags: Iterable[str] = ()) -> Checkpoint | None:
        """Save because something happened: one of `TRIGGERS`.

        Returns:
            The checkpoint; None for SignificantTimePassed where the last one is not more than 5 minutes old.

        Raises:
            InvalidInputError: There is no such trigger.
        """
        if trigger not in TRIGGERS:
            raise InvalidInputError(
                f"{trigger!r} is no trigger",
                code=ErrorCode.BAD_ARGUMENT,
                hint=f"use one of: {', '.join(TRIGGERS)}",
            )
        if trigger == "SignificantTimePassed" and not self._is_long_ago():
            return None
        return self._save(f"Auto: {trigger}", tags=("auto", trigger, *tags), trigger=f"auto:{trigger}")

    def flush(self, message: str = "") -> Checkpoint | None:
        """Save what no checkpoint has yet; None where there is nothing. A program that ends calls this."""
        return self._save(message, tags=(), trigger="auto:notebook") if self.has_changes() else None

    def use(self, workspace: Workspace | None) -> None:
        """Capture the code of a folder from now on, or of none."""
        self.workspace = workspace
        if self._doc["workspace"] is None:
            # What is there at first is where the code stands, and no modification.
            self._capture(None)

    def touch(self) -> Checkpoint | None:
        """Save if the code changed, or if more than 5 minutes have passed; every change of the notebook calls this."""
        if self.workspace is not None:
            code = self.workspace.capture()
            if not self._has_code(code):
                return self._save(
                    "Auto: CodeModified",
                    tags=("auto", "CodeModified"),
                    trigger="auto:CodeModified",
                    code=code,
                )
        return self.auto_checkpoint("SignificantTimePassed")

    @property
    def last(self) -> Checkpoint | None:
        """The newest checkpoint that this notebook knows."""
        return self._last

    def has_changes(self) -> bool:
        """Say whether there is something that no checkpoint has."""
        return self._writable and (self._last is None or bool(self._doc.changes()))

    # -- looking -------------------------------------------------------------------------------------------------

    def state(self, ref: Any = None) -> DebugState:
        """Return the debugging state of a checkpoint; without one, as it is now.

        Raises:
            NotFoundError: `ref` names nothing.
            InvalidInputError: That checkpoint is no notebook.
        """
        if ref is None:
            self._gather()
            return DebugState.of(self._doc)
        return DebugState.of(self._stored(ref))

    def at(self, when: datetime | str, *, tag: str | None = None) -> DebugState:
        """Return what was known at a moment: `nb.at("2 hours ago").beliefs`."""
        return self.state(self.session.at(when, tag=tag))

    def why(self, belief: str) -> Belief:
        """Say since when something is believed, and why: each change of a belief, with its checkpoint.

        Raises:
            NotFoundError: No checkpoint has such a belief.
        """
        path = f"beliefs.{belief}"
        history: list[Item] = []
        since: Any = None
        last: Item = {}
        for change in self.session.history_of(path, oldest_first=True):
            value = change.value or {"confidence": 0.0, "status": "missing", "reason": "", "statement": ""}
            held = value["status"] == "held" and value["confidence"] >= HELD
            if held and since is None:
                since = change.checkpoint
            since = since if held else None
            last = value
            history.append(
                {
                    "checkpoint": change.checkpoint.id,
                    "seq": change.checkpoint.seq,
                    "at": change.checkpoint.created_at.isoformat(),
                    **{name: value[name] for name in ("confidence", "status", "reason")},
                }
            )
        first = next((each for each in history if since is not None and each["checkpoint"] == since.id), None)
        why = (first or {}).get("reason") or last.get("source") or ""
        return Belief(belief, last.get("statement", ""), since is not None, since, str(why), tuple(history))

    def compare(self, one: Any, other: Any = "@") -> Comparison:
        """Say what changed from one checkpoint to another, in the terms of debugging."""
        first, second = self.session.checkpoint(one), self.session.checkpoint(other)
        return compare_states(
            DebugState.of(self._stored(first)),
            DebugState.of(self._stored(second)),
            from_=first.id,
            to=second.id,
            time_delta=second.created_at - first.created_at,
        )

    def brief(self, budget: int = 2000) -> str:
        """Return the thread of the session in at most so many tokens; see `holdfast.agents.notebook.brief`."""
        state = self.state()
        unfinished = self.unfinished_restore()
        return write_brief(
            state,
            budget=budget,
            checkpoint=f"#{self._last.seq} {self._last.id[:12]}"
            if self._last is not None
            else "nothing saved yet",
            contradictions=self.contradictions(),
            flaky=self.checks.flaky() if self._is_own("verification_runner") else (),
            warning=(
                "a restore of code was interrupted: holdfast nb restore --finish, or --undo"
                if unfinished
                else ""
            ),
        )

    def contradictions(self) -> list[Contradiction]:
        """Return the contradictions of the beliefs, if the belief graph is one of ours."""
        graph = self._systems.get("belief_graph")
        return graph.contradictions() if isinstance(graph, BeliefGraph) else []

    def create_recovery_point(self) -> RecoveryPoint:
        """Return the newest checkpoint, and the steps that lead back to it.

        Raises:
            NotFoundError: There is no checkpoint.
        """
        newest = self.session.checkpoint("@")
        return recovery_point(newest.id, self.session.id, self._stored(newest))

    # -- going back ----------------------------------------------------------------------------------------------

    def plan(self, ref: Any, *, paths: Iterable[str] | None = None) -> RestorePlan:
        """Return what a restore would do to the files: added, modified and deleted ones, and those left alone."""
        return self.restoration.plan(ref, paths)

    def restore(self, ref: Any, *, what: What = "all", paths: Iterable[str] | None = None) -> RecoveryReport:
        """Go back to a checkpoint: the notebook, the files, or both.

        Everything as it is now is saved first, files included. Nothing is taken away: what was the head stays behind
        the new one, and `undo_restore` brings the files back. With a workspace, files come back byte for byte; those
        that change meanwhile, and those that git ignores, are left alone and are in the report.

        Args:
            ref: Where to.
            what: all, notebook or code.
            paths: Only these files and folders; for code.

        Raises:
            StateError: An earlier restore was interrupted (`restore-unfinished`).
        """
        return self.restoration.restore(ref, what=what, paths=paths)

    def unfinished_restore(self) -> Checkpoint | None:
        """Return the safety checkpoint of a restore that was interrupted, if there is one."""
        return self.restoration.unfinished()

    def finish_restore(self) -> RecoveryReport:
        """Complete a restore that was interrupted. Files that were changed since are left alone.

        Raises:
            NotFoundError: There is none.
        """
        return self.restoration.finish()

    def undo_restore(self) -> RecoveryReport:
        """Take back the last restore, finished or not. Files that were changed since are left alone.

        Raises:
            NotFoundError: There is none.
        """
        return self.restoration.undo()

    # -- the document --------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Take up the head of the branch."""
        begin = empty_state(self.session.id, self._clock(), self.session.branch)
        look = self.session.document if self._writable else self.session.load
        self._doc = look(default=begin)
        if not is_notebook(self._doc):
            raise InvalidInputError(
                f"session {self.session.id!r} has a state that is no notebook",
                code=ErrorCode.BAD_ARGUMENT,
                hint="give the notebook a session of its own (on the command line: --session NAME)",
                session=self.session.id,
            )
        found = self.session.log(limit=1)
        self._last: Checkpoint | None = found[0] if found else None
        for name, system in self._systems.items():
            if isinstance(system, Part):
                self._adopt(name, system)
        for part in (self.notes, self.commands):
            self._join(part)
        self.use(self.workspace)

    def _adopt(self, name: str, part: Part) -> None:
        if isinstance(part, ExperimentManager):
            part.driver = Branches(self)
            self.experiments = part
        elif isinstance(part, VerificationRunner):
            part.code_mark = self._code_mark
            self.checks = part
        elif isinstance(part, HypothesisBoard):
            self.board = part
        elif isinstance(part, BeliefGraph):
            self.beliefs = part
        elif isinstance(part, GapAnalyzer):
            self.gaps = part
        del name
        self._join(part)

    def _join(self, part: Part) -> None:
        part.attach(self._doc, self._observe)
        current = self._doc["current_branch"]
        branches = self._doc["branches"]
        items = branches.values() if isinstance(branches, dict) else branches
        part.mark = next((each["id"] for each in items if each.get("branch") == current), "")

    def _is_own(self, name: str) -> bool:
        return isinstance(self._systems.get(name), Part)

    def _stored(self, ref: Any) -> Any:
        state = self.session.load(ref)
        if not is_notebook(state):
            raise InvalidInputError(
                "that checkpoint is no notebook",
                code=ErrorCode.BAD_ARGUMENT,
                hint="choose another one: holdfast list",
            )
        return state

    def _observe(self, event: str, item: Item) -> None:
        metrics = self._doc["metrics"]
        if item.get("first_verdict"):
            metrics["hypotheses_tested"] += 1
        if event == "verification.completed":
            metrics["verifications_run"] += 1
        if event == "gap.filled":
            metrics["gaps_filled"] += 1
        if not self.auto:
            return
        if event in BY_EVENT:
            trigger, tags = BY_EVENT[event]
            self.auto_checkpoint(trigger, tags=tags)
        else:
            self.touch()

    def _gather(self) -> None:
        """Take in what systems of others have."""
        for name, system in self._systems.items():
            if isinstance(system, Part):
                continue
            value = system.snapshot()
            groups = SYSTEMS[name]
            if not isinstance(value, Mapping):
                value = {groups[0]: value}
            for key in groups:
                if key in value and self._doc[key] != value[key]:
                    self._doc[key] = value[key]

    def _hand_over(self) -> None:
        """Give systems of others what was restored; ours look at the document."""
        for name, system in self._systems.items():
            if not isinstance(system, Part):
                state = DebugState.of(self._doc).to_dict()
                system.restore({key: state[key] for key in SYSTEMS[name]})

    def _save(
        self, message: str, *, tags: Iterable[str], trigger: str, code: CodeState | None = None
    ) -> Checkpoint:
        if not self._writable:
            raise InvalidInputError(
                "this notebook was opened to be looked at",
                code=ErrorCode.BAD_ARGUMENT,
                hint="open it without writable=False to change it",
            )
        self._gather()
        self._capture(code)
        metrics = self._doc["metrics"]
        before, branch = dict(metrics), self.session.branch
        metrics["checkpoints_created"] += 1
        if self._last is not None:
            passed = (self._clock() - self._last.created_at).total_seconds()
            metrics["time_in_debugging"] += round(min(max(passed, 0.0), _IDLE_SECONDS), 3)
        try:
            made = self._doc.save(
                clean_text(message), tags=tags, trigger=trigger, on_conflict=self._on_conflict
            )
        except Exception:
            metrics.update(before)
            raise
        if made.branch != branch:
            # The session stands on the new branch by now; whoever opens the session later shall, too.
            warnings.warn(
                f"another writer moved branch {branch!r}: the notebook goes on with {made.branch!r}",
                HoldfastWarning,
                stacklevel=3,
            )
            self.session.switch(made.branch, remember=True)
        self._last = made
        checkpoint: Checkpoint = made
        return checkpoint

    def _capture(self, code: CodeState | None) -> None:
        if self.workspace is None:
            return
        code = code or self.workspace.capture()
        if self._has_code(code):
            return
        doc, changes = self._doc, code.changes()
        if doc["workspace"] != code.place():
            doc["workspace"] = code.place()
        if changes is None or doc["code_changes"] is None:
            doc["code_changes"] = changes
            return
        kept = doc["code_changes"]
        kept["commit_hash"], kept["env_vars"] = changes["commit_hash"], changes["env_vars"]
        # File by file: those that are as they were are not written again.
        for path in [each for each in kept["patches"] if each not in changes["patches"]]:
            del kept["patches"][path]
        for path, entry in changes["patches"].items():
            if kept["patches"].get(path) != entry:
                kept["patches"][path] = entry

    def _has_code(self, code: CodeState) -> bool:
        place, changes = self._doc["workspace"], self._doc["code_changes"]
        return bool(place == code.place() and changes == code.changes())

    def _code_mark(self) -> str | None:
        """Names the code as it is: the same text for the same files."""
        if self.workspace is None:
            return None
        code = self.workspace.capture()
        digest = hashlib.blake2b(digest_size=8)
        for name, each in sorted(code.repositories.items()):
            digest.update(f"{name}\0{each.commit}\0".encode("utf-8", "surrogateescape"))
        for path, entry in sorted(code.patches.items()):
            digest.update(path.encode("utf-8", "surrogateescape") + b"\0" + entry.get("content", b"") + b"\0")
        return digest.hexdigest()

    def _is_long_ago(self) -> bool:
        last = self._doc["started_at"] if self._last is None else self._last.created_at
        now = self._clock()
        if (now - last).total_seconds() <= _SIGNIFICANT_SECONDS:
            return False
        # Another process may have saved since.
        newest = self.session.log(limit=1)
        return not newest or (now - newest[0].created_at).total_seconds() > _SIGNIFICANT_SECONDS
