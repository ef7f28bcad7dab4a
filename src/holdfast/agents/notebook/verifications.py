"""The verification runner: checks with an expectation, run as often as wanted, with every result kept.

A check is a command, which passes if it ends with the expected exit code and its output has the expected text, or a
Python function, which passes unless it raises or returns False. Checks are told apart by their name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

from holdfast.agents.notebook.part import Item, Part, plain
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.workspace.commands import preview, run_command

__all__ = ["VerificationRunner"]

_MOST_RUNS: Final = 100


class VerificationRunner(Part):
    """Checks and their results."""

    keys: ClassVar[tuple[str, ...]] = ("verification_results",)
    noun = "verification"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.code_mark: Callable[[], str | None] = lambda: None
        """Names the code that a check ran on; a notebook with a workspace sets it."""
        self._functions: dict[str, Callable[[], Any]] = {}

    def run(
        self,
        name: str,
        command: str | None = None,
        *,
        expect: str = "",
        exit_code: int = 0,
        cwd: str | Path | None = None,
        timeout: float | None = None,
    ) -> Item:
        """Run a check and return its result. Without a command, the one that this check had last runs again.

        Args:
            name: What is checked.
            command: A command for the shell.
            expect: A text that the output must have.
            exit_code: What it must end with.
            cwd: The folder to run it in.
            timeout: Seconds after which it has failed.

        Raises:
            NotFoundError: No command is given, and there is no such check (`item-missing`).
        """
        name = self._text(name, "name")
        if command is None:
            if name in self._functions:
                return self.check(name, self._functions[name])
            last = self._last(name)
            command, expect, exit_code = last["command"], last["expect"], last["expected_exit"]
            cwd, timeout = cwd or last["working_dir"], timeout or last["timeout"]
        done = run_command(command, cwd=cwd, timeout=timeout)
        output = f"{done.stdout_preview}\n{done.stderr_preview}".strip()
        passed = done.exit_code == exit_code and (not expect or expect in output)
        return self._keep(
            name,
            passed=passed,
            command=done.command,
            expect=expect,
            expected_exit=exit_code,
            exit_code=done.exit_code,
            working_dir=done.working_dir,
            timeout=timeout,
            duration_ms=done.duration_ms,
            output=output,
        )

    def check(self, name: str, function: Callable[[], Any]) -> Item:
        """Run a Python check and return its result: it passes unless it raises or returns False."""
        name = self._text(name, "name")
        self._functions[name] = function
        began = time.perf_counter()
        try:
            answer = function()
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its result
            passed, output = False, f"{type(error).__name__}: {error}"
        else:
            passed, output = answer is not False, "" if answer is None else repr(answer)
        return self._keep(
            name,
            passed=passed,
            command="",
            expect="",
            expected_exit=0,
            exit_code=0 if passed else 1,
            working_dir="",
            timeout=None,
            duration_ms=round((time.perf_counter() - began) * 1000, 1),
            output=preview(output),
        )

    def rerun(self, *, failed: bool = False) -> list[Item]:
        """Run every check again that can be run here, in order; only those that failed last with `failed`."""
        latest = self.latest()
        names = [name for name, each in latest.items() if each["command"] or name in self._functions]
        return [self.run(name) for name in names if not failed or not latest[name]["passed"]]

    def get(self, result: str) -> Item:
        """Return a result as a plain dict."""
        item: Item = plain(self._get("verification_results", result))
        return item

    def all(self, name: str | None = None) -> list[Item]:
        """Return the results, oldest first; of one check if it is named."""
        return [
            plain(each)
            for each in self._data["verification_results"].values()
            if name in (None, each["name"])
        ]

    def latest(self) -> dict[str, Item]:
        """Return the newest result of each check, by name."""
        return {each["name"]: each for each in self.all()}

    def flaky(self) -> list[str]:
        """Return the checks that pass and fail on the same code, or that changed their mind twice."""
        runs: dict[str, list[Item]] = {}
        for each in self.all():
            runs.setdefault(each["name"], []).append(each)
        return sorted(name for name, results in runs.items() if _is_flaky(results[-_MOST_RUNS:]))

    def on_verification_complete(self, callback: Callable[[Item], Any]) -> None:
        """Call a function with each result."""
        self.on("verification.completed", callback)

    def _last(self, name: str) -> Any:
        found = next((each for each in reversed(self.all(name))), None)
        if found is None:
            known = list(self.latest())
            raise NotFoundError(
                f"there is no check {name!r}",
                code=ErrorCode.ITEM_MISSING,
                hint=f"there are: {', '.join(known[-8:])}" if known else "give a command to run",
                id=name,
            )
        if not found["command"]:
            raise InvalidInputError(
                f"check {name!r} is a Python function that this process does not have",
                code=ErrorCode.BAD_ARGUMENT,
                hint="call check(name, function) with it",
                id=name,
            )
        return found

    def _keep(self, check: str, **result: Any) -> Item:
        name = self._new_id("verification_results", "v")
        self._data["verification_results"][name] = {
            "id": name,
            "name": check,
            **result,
            "code": self.code_mark(),
            "timestamp": self.clock(),
        }
        done = self.get(name)
        self._fire("verification.completed", done)
        return done


def _is_flaky(results: list[Item]) -> bool:
    turns = sum(one["passed"] != other["passed"] for one, other in pairwise(results))
    by_code: dict[str, set[bool]] = {}
    for each in results:
        if each["code"] is not None:
            by_code.setdefault(each["code"], set()).add(each["passed"])
    return turns >= 2 or any(len(outcomes) == 2 for outcomes in by_code.values())
