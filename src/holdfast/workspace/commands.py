"""Commands: run one as a shell would, show its output as it comes, and keep a record with previews of it.

The record has the command, folder, exit code, duration and the beginning and end of both outputs. Secrets are replaced
in the command line and in the outputs before anything is cut, so that no half of a token stays at an edge.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.workspace.secrets import redact

__all__ = ["NOT_FOUND", "PREVIEW", "CommandRecord", "clean_text", "preview", "run_command"]

PREVIEW: Final = 2_000
"""Characters of each output that a record keeps."""
NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_KEPT: Final = 64 * 1024
"""Bytes kept of each end of an output until the command ends. Far more than a preview: what is redacted is whole."""
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True)
class CommandRecord:
    """What was run, where, and what came of it."""

    command: str
    working_dir: str
    exit_code: int
    duration_ms: float
    timestamp: datetime
    stdout_preview: str = ""
    stderr_preview: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as data; the timestamp stays a datetime."""
        return dict(vars(self))


class _Ends:
    """The first and the last bytes of a stream, and how many were between."""

    def __init__(self) -> None:
        self._first = bytearray()
        self._last = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = _KEPT - len(self._first)
        self._first += data[: max(room, 0)]
        self._last += data[max(room, 0) :]
        # Trimmed seldom: each trim copies.
        if len(self._last) > 2 * _KEPT:
            del self._last[:-_KEPT]

    def preview(self) -> str:
        last = bytes(self._last[-_KEPT:])
        if self._total <= _KEPT + len(last):
            return preview((self._first + last).decode("utf-8", "replace"))
        # The first line of the end may be half a line, and half a secret.
        last = last.partition(b"\n")[2]
        head, tail = (clean_text(part.decode("utf-8", "replace")) for part in (self._first, last))
        left_out = self._total - len(self._first) - len(last)
        return (
            f"{head[: PREVIEW // 2]}\n[... {left_out} bytes and more left out ...]\n{tail[-PREVIEW // 2 :]}"
        )


def clean_text(text: str) -> str:
    """Return a text without terminal escapes, NULs and secrets."""
    return redact(_ANSI.sub("", text).replace("\x00", "")).encode("utf-8", "replace").decode()


def preview(text: str, limit: int = PREVIEW) -> str:
    """Return the beginning and the end of a text, cleaned; what is left out is said."""
    text = clean_text(text)
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def run_command(
    command: str | Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    show: bool = False,
    stdin: int | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CommandRecord:
    """Run a command to its end and return its record.

    A command that cannot be started ends with 127 (not found) or 126, one that a signal ends with 128 and its number,
    and one that takes longer than `timeout` with 124, as a shell and `timeout` have it.

    Args:
        command: A text runs in the shell; a list of words runs as it is.
        cwd: The folder; the current one by default.
        env: Variables to set beside those of this process.
        timeout: Seconds after which it is ended.
        show: Pass its output on to this process's own stdout and stderr as it comes.
        stdin: A file descriptor for its input; none (`/dev/null`) by default.
        clock: The time of the record; for tests.

    Raises:
        InvalidInputError: The command is empty, or the folder is not there.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    text = command if isinstance(command, str) else shlex.join(words)
    folder = Path(cwd or Path.cwd())
    if not text.strip():
        raise InvalidInputError(
            "there is no command to run", code=ErrorCode.BAD_ARGUMENT, hint="holdfast exec -- pytest -x"
        )
    if not folder.is_dir():
        raise InvalidInputError(
            f"{folder} is not a folder",
            code=ErrorCode.BAD_ARGUMENT,
            hint="name a folder to run the command in",
        )
    began, started = clock(), time.perf_counter()
    out, err = _Ends(), _Ends()
    try:
        process = subprocess.Popen(  # noqa: S603 - running the caller's command is the point
            words,
            cwd=folder,
            env=None if env is None else {**os.environ, **env},
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        message = f"{words[0]}: {error.strerror}\n"
        err.add(message.encode())
        if show:
            sys.stderr.write(message)
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    else:
        code = _follow(process, out, err, timeout=timeout, show=show)
    return CommandRecord(
        command=clean_text(text),
        working_dir=str(folder),
        exit_code=code,
        duration_ms=round((time.perf_counter() - started) * 1000, 1),
        timestamp=began,
        stdout_preview=out.preview(),
        stderr_preview=err.preview(),
    )


def _follow(
    process: subprocess.Popen[bytes], out: _Ends, err: _Ends, *, timeout: float | None, show: bool
) -> int:
    assert process.stdout is not None
    assert process.stderr is not None
    readers = [
        threading.Thread(target=_read, args=(pipe, ends, target if show else None), daemon=True)
        for pipe, ends, target in ((process.stdout, out, sys.stdout), (process.stderr, err, sys.stderr))
    ]
    for reader in readers:
        reader.start()
    code = _wait(process, timeout)
    for reader in readers:
        # A child that went to the background may hold the pipe open for ever.
        reader.join(timeout=2)
    return code


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:
    while True:
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return 124
        except KeyboardInterrupt:
            # The terminal sends Ctrl-C to the command as well: it decides how to end, and we record how it did.
            timeout = None
            continue
        return code if code >= 0 else 128 + signal.Signals(-code)


def _read(pipe: IO[bytes], ends: _Ends, target: Any) -> None:
    with pipe:
        while data := os.read(pipe.fileno(), 65536):
            ends.add(data)
            if target is not None:
                try:
                    getattr(target, "buffer", target).write(data)
                    target.flush()
                except (OSError, ValueError):
                    # Whoever read our output has gone; the record still wants the rest.
                    target = None
