"""`shell`: the action that runs a command."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from holdfast.agents.executor.context import StepContext

_PREVIEW: Final = 10_000
"""Characters of each output that are kept: the first and the last half."""
_POLL: Final = 0.05


class CommandFailedError(Exception):
    """A command did not end with 0, or not in time."""


def shell(
    command: list[str],
    folder: str | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    *,
    check: bool = True,
    context: StepContext | None = None,
) -> dict[str, Any]:
    """Run a command, without a shell in between; its key is in HOLDFAST_STEP_KEY.

    Args:
        command: The program and its arguments.
        folder: Where it runs; here if it is left out.
        timeout: Seconds after which it is killed, with the processes that it started.
        env: Variables beside those of this process.
        stdin: Text that it reads.
        check: Whether another exit code than 0 is a failure.
        context: Filled in by the executor.

    Returns:
        exit_code, stdout and stderr (the beginning and the end, where they are long), duration_ms.

    Raises:
        CommandFailedError: It failed, or took too long.
    """
    given: Any = command
    if type(given) is str or not given or not all(type(each) is str for each in given):
        raise TypeError('command is a list of texts: ["git", "status"]')
    limit = timeout if timeout is not None else None if context is None else context.timeout
    variables = dict(os.environ) | dict(env or {})
    if context is not None:
        variables["HOLDFAST_STEP_KEY"] = context.key
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        exit_code = _run(command, folder, variables, stdin, limit, context, out, err)
        result: dict[str, Any] = {
            "exit_code": exit_code,
            "stdout": _preview(out),
            "stderr": _preview(err),
            "duration_ms": (time.monotonic() - began) * 1000,
        }
    if exit_code is None:
        raise CommandFailedError(f"{Path(command[0]).name} was killed after {limit:g} seconds")
    if check and exit_code != 0:
        said = result["stderr"].strip().splitlines()[-1:] or result["stdout"].strip().splitlines()[-1:]
        raise CommandFailedError(
            f"{Path(command[0]).name} ended with {exit_code}" + "".join(f": {line:.300}" for line in said)
        )
    return result


def _run(
    command: list[str],
    folder: str | None,
    variables: Mapping[str, str],
    stdin: str | None,
    limit: float | None,
    context: StepContext | None,
    out: IO[bytes],
    err: IO[bytes],
) -> int | None:
    """The exit code; None if the time was over first."""
    deadline = None if limit is None else time.monotonic() + limit
    with tempfile.TemporaryFile() as given:
        given.write((stdin or "").encode())
        given.seek(0)
        # A session of its own: what it started goes with it.
        process = subprocess.Popen(  # noqa: S603 - this is what the plan asks for
            command, cwd=folder, env=variables, stdin=given, stdout=out, stderr=err, start_new_session=True
        )
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL)
                if (deadline is not None and time.monotonic() >= deadline) or (
                    context is not None and context.stopping
                ):
                    return None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _preview(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= _PREVIEW:
        return file.read().decode(errors="replace").replace("\x00", "\ufffd")
    head = file.read(_PREVIEW // 2)
    file.seek(size - _PREVIEW // 2)
    left_out = f"\n[... {size - _PREVIEW} bytes left out ...]\n"
    whole = head.decode(errors="replace") + left_out + file.read().decode(errors="replace")
    return whole.replace("\x00", "\ufffd")
