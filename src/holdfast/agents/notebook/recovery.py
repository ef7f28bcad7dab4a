"""Recovery point: the steps that bring a debugging session back, each of which can be carried out."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.agents.notebook.part import Item
from holdfast.errors import ErrorCode, StateError
from holdfast.workspace.commands import run_command

__all__ = [
    "ManualInstruction",
    "RecoveryPoint",
    "RecoveryStep",
    "ReplayCommand",
    "RestoreCodeState",
    "RestoreEnvironment",
]


@dataclass(frozen=True)
class RestoreCodeState:
    """Bring the files back to what they were on top of a commit."""

    commit_hash: str | None
    patches: list[str]
    """The files that differed from the commit."""
    checkpoint_id: str

    def carry_out(self, notebook: Any) -> Any:
        """Restore the files, with a safety checkpoint first."""
        return notebook.restore(self.checkpoint_id, what="code").to_dict()

    def describe(self) -> str:
        """What to do, for people."""
        where = f" on top of {self.commit_hash[:12]}" if self.commit_hash else ""
        command = f"holdfast nb restore {self.checkpoint_id[:12]} --what code"
        return f"Restore {len(self.patches)} changed files{where}: {command}"


@dataclass(frozen=True)
class RestoreEnvironment:
    """Set the variables that programs were run with."""

    env_vars: dict[str, str]

    def carry_out(self, notebook: Any) -> Any:
        """Set them in this process, for it and the commands that it runs."""
        del notebook
        os.environ.update(self.env_vars)
        return {"set": sorted(self.env_vars)}

    def describe(self) -> str:
        """What to do, for people."""
        return "\n".join(
            [f"export {name}={shlex.quote(value)}" for name, value in self.env_vars.items()]
            or ["No variables to set"]
        )


@dataclass(frozen=True)
class ReplayCommand:
    """Run a command again that was marked for it."""

    command: str
    working_dir: str = ""
    expected_exit: int = 0

    def carry_out(self, notebook: Any) -> Any:
        """Run it; one that ends otherwise than it did then has failed."""
        del notebook
        done = run_command(self.command, cwd=self.working_dir or None)
        if done.exit_code != self.expected_exit:
            raise StateError(
                f"{self.command} ended with {done.exit_code}, not {self.expected_exit}",
                code=ErrorCode.REPLAY_FAILED,
                hint="mend it, then carry out the steps from this one on",
                command=self.command,
                exit_code=done.exit_code,
                stderr=done.stderr_preview,
            )
        return done.to_dict()

    def describe(self) -> str:
        """What to do, for people."""
        return f"Run: {self.command}"


@dataclass(frozen=True)
class ManualInstruction:
    """Something that a person does, or reads."""

    instruction: str

    def carry_out(self, notebook: Any) -> Any:
        """Nothing is done; the instruction is handed over."""
        del notebook
        return {"instruction": self.instruction}

    def describe(self) -> str:
        """What to do, for people."""
        return self.instruction


RecoveryStep = RestoreCodeState | RestoreEnvironment | ReplayCommand | ManualInstruction


@dataclass
class RecoveryPoint:
    """A checkpoint, and how to get back to it."""

    checkpoint_id: str
    recovery_instructions: list[RecoveryStep] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The recovery point as data; each step has its kind under `step`."""
        steps = [{"step": type(each).__name__, **vars(each)} for each in self.recovery_instructions]
        return {"checkpoint_id": self.checkpoint_id, "recovery_instructions": steps}

    def carry_out(self, notebook: Any, *, start: int = 0) -> list[Item]:
        """Do the steps in order, and return what came of each.

        Args:
            notebook: Where.
            start: The first step to do, counted from 0: how to go on after a failure.

        Raises:
            StateError: A command failed (`replay-failed`); `details` has the step, and no later one was done.
        """
        done: list[Item] = []
        for number, step in enumerate(self.recovery_instructions[start:], start):
            try:
                result = step.carry_out(notebook)
            except StateError as error:
                error.details.update(step=number, done=done)
                raise
            done.append({"step": type(step).__name__, "number": number, "result": result})
        return done


def recovery_point(checkpoint: str, session: str, state: Mapping[str, Any]) -> RecoveryPoint:
    """The steps that lead back to a stored state."""
    steps: list[RecoveryStep] = []
    changes, place = state.get("code_changes"), state.get("workspace")
    if place is not None:
        commit = (place["repositories"].get("") or {}).get("commit")
        steps.append(RestoreCodeState(commit, sorted(changes["patches"]) if changes else [], checkpoint))
    steps.append(RestoreEnvironment(dict(place["env_vars"]) if place is not None else {}))
    for each in state["command_history"].values():
        if each.get("replay") and "[redacted:" in each["command"]:
            steps.append(ManualInstruction(f"Run, with the secret put back in: {each['command']}"))
        elif each.get("replay"):
            steps.append(ReplayCommand(each["command"], each["working_dir"], each["exit_code"]))
    steps.append(ManualInstruction(f"Restore debugging session {session} from checkpoint {checkpoint}"))
    return RecoveryPoint(checkpoint, steps)
