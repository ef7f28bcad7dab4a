"""Every way a command can end badly, as words on stderr and an exit code.

A failure has three lines: what happened, what to do next, and its code. With `--json` the same record is one object on
stderr. Whatever escapes a command without being an error of ours is a bug: it ends with 70, and its traceback is shown
only to those who ask for it with HOLDFAST_DEBUG=1.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from holdfast.cli._settings import Settings
from holdfast.cli._terminal import escape_controls, paint
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.settings.near import close_names, did_you_mean

EXIT_CODES = {
    0: "done",
    1: "ran, and the answer is no (verify found damage, an import left threads out, the demo lost a step, "
    "a heartbeat failed, bisect or grep found nothing)",
    2: "the command line or its input cannot be used",
    4: "nothing there: session, branch, checkpoint, or nothing matched the filters",
    5: "conflict: another writer was first, or both sides of a merge changed the same",
    6: "not supported by this version or in this place",
    7: "the program and the stored state do not fit",
    8: "the disk, the store or the output failed",
    9: "stored bytes are damaged",
    10: "no store here",
    11: "the store is locked",
    20: "needs a confirmation, and nobody gave it",
    70: "a bug in holdfast",
    130: "interrupted",
    141: "the reader of the output went away",
    143: "ended by SIGTERM, after a last checkpoint",
}
"""What a script can rely on; an unknown code is a failure."""

_DEBUG = "HOLDFAST_DEBUG"


def run_guarded(settings: Settings, action: Callable[[], int | None]) -> int:
    """Run a command; return what the process ends with, having told the person why."""
    try:
        code = action() or 0
        # Python would flush at exit, where a full disk or a closed pipe can no longer be reported.
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        return 141  # what a shell reports for SIGPIPE, without the noise
    except (KeyboardInterrupt, click.Abort):
        _report(settings, _record("interrupted", "interrupted", "", 130))
        return 130
    # The boundary: below it errors have types; here every one of them becomes an exit code.
    except Exception as error:  # noqa: BLE001
        if os.environ.get(_DEBUG):
            import traceback

            traceback.print_exc()
        record = describe(error)
        record["hint"] = settings.pasteable(record["hint"])
        if isinstance(error, OSError):
            _silence(sys.stdout)
        _report(settings, record)
        return int(record["exit"])
    else:
        return code


def describe(error: BaseException) -> dict[str, Any]:
    """The record of a failure, with the fields that every surface shows."""
    if isinstance(error, HoldfastError):
        from holdfast.cli._words import in_shell_words

        record = error.to_dict()
        return record | {"hint": in_shell_words(record["hint"])}
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        hint = "holdfast --help lists the commands; holdfast demo shows them at work"
        return _record(ErrorCode.BAD_ARGUMENT, "no command given", hint, 2, help=error.format_message())
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, OSError):
        where = "writing the output failed" if error.filename is None else str(error.filename)
        hint = "check the path, its permissions and the space left"
        return _record(ErrorCode.IO_FAILED, f"{where}: {error.strerror or error}", hint, 8)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = f"this is a bug in holdfast: run again with {_DEBUG}=1 and report the traceback"
    return _record("internal", f"{what} ({_origin(error)})", hint, 70)


def _usage(error: click.ClickException) -> dict[str, Any]:
    from holdfast.cli._usage import behind_dashes, in_plain_words

    ctx = error.ctx if isinstance(error, click.UsageError) else None
    message = in_plain_words(error, ctx)
    candidates = list(getattr(error, "candidates", ()))
    called = ctx.command_path if ctx else "holdfast"
    usual = f"{called} --help shows how it is called"
    if isinstance(error, click.NoSuchOption):
        params = ctx.command.get_params(ctx) if ctx else []
        text = behind_dashes(called, params)
        if text and not error.option_name.startswith("--"):
            # One letter is like any other: it is more likely the beginning of the text.
            usual = text
        else:
            candidates = close_names(error.option_name, [name for param in params for name in param.opts])
            usual = f"{usual}; {text}" if text else usual
    hint = getattr(error, "hint", "") or did_you_mean(candidates) or usual
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "ref":
        # `holdfast restore #12` is a comment to most shells, and the number never gets here.
        hint = f"a number needs quotes in a shell: {called} '#12'"
    return _record(ErrorCode.BAD_ARGUMENT, message, hint, 2, candidates=candidates)


def _record(code: str, message: str, hint: str, exit_code: int, **details: Any) -> dict[str, Any]:
    return {"code": str(code), "message": message, "hint": hint, "exit": exit_code, "details": details}


def _origin(error: BaseException) -> str:
    place = "unknown place"
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        place = f"{file.rpartition(os.sep)[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _report(settings: Settings, record: dict[str, Any]) -> None:
    # Nothing can be told when stderr is gone as well; the exit code still says it.
    with contextlib.suppress(OSError, ValueError):
        if settings.json:
            from holdfast.cli._render import json_text

            details = {key: value for key, value in record["details"].items() if key != "help"}
            document = {"error": {**record, "details": details, "candidates": _candidates(record)}}
            click.echo(json_text(document, indent=None), file=sys.stderr)
        else:
            _report_text(settings, record)


def _report_text(settings: Settings, record: dict[str, Any]) -> None:
    on = settings.paints(sys.stderr)
    if help_text := record["details"].get("help"):
        click.echo(help_text + "\n", file=sys.stderr, color=on)
    lines = [
        ("error", record["message"], "red"),
        ("hint", record["hint"], "cyan"),
        ("code", record["code"], "dim"),
    ]
    for label, text, style in lines:
        if text:
            click.echo(
                f"{paint(label + ':', style, on=on)} {escape_controls(str(text))}", file=sys.stderr, color=on
            )


def _candidates(record: dict[str, Any]) -> list[Any]:
    found = record["details"].get("candidates", [])
    return list(found) if isinstance(found, list | tuple) else []


def _silence(stream: Any) -> None:
    # What is still in the buffer would fail again when Python flushes at exit, with a traceback and exit code 120.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
