"""Every way a command can end badly, as words on stderr and an exit code.

A failure has three lines: what happened, what to do next, and its code. With `--json` the same record is one object on
stderr. Whatever escapes a command without being an error of ours is a bug: it ends with 70, and its traceback is shown
only to those who ask for it with HOLDFAST_DEBUG=1.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.terminal import escape_controls, paint
from holdfast.errors import ErrorCode, HoldfastError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast.cli.invocation import Invocation

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


SHELL_HINTS = {
    ErrorCode.BRANCH_EXISTS: "choose another name; holdfast branch lists those that are there",
    ErrorCode.BRANCH_MISSING: "{hint}; holdfast switch NAME goes to one",
    ErrorCode.BRANCH_MOVED: "run the command again: another writer was first",
    ErrorCode.CHECKPOINT_MISSING: "holdfast list shows what there is; holdfast create MESSAGE saves a checkpoint",
    ErrorCode.CHUNK_DAMAGED: "holdfast show --recover shows the newest state that is whole; holdfast verify names what "
    "is damaged",
    ErrorCode.CHUNK_MISSING: "holdfast show --recover shows the newest state that is whole; holdfast verify names what "
    "is damaged",
    ErrorCode.HISTORY_DIFFERS: "use another store (--store), or another target",
    ErrorCode.HISTORY_TOO_SHORT: "holdfast list shows how far it goes back",
    ErrorCode.KEY_TAKEN: "use a new --key: one names one checkpoint, for good",
    ErrorCode.NEVER_HOLDS: "holdfast show shows the newest state; --good and --bad choose another range",
    ErrorCode.NOTHING_INTACT: "holdfast verify looks at all sessions; or bring the store back from a backup",
    ErrorCode.NOTHING_TO_REDO: "holdfast undo --list shows what was done",
    ErrorCode.NOTHING_TO_UNDO: "saves are not undone: holdfast restore @- goes back one, holdfast delete @ removes it",
    ErrorCode.PROTECTED: "--force does it all the same",
    ErrorCode.ROW_DAMAGED: "holdfast verify names what is damaged, holdfast repair keeps what is whole",
    ErrorCode.SESSION_MISMATCH: "--session names another session",
    ErrorCode.STORE_DAMAGED: "holdfast verify says what is lost, holdfast repair keeps the rest",
    ErrorCode.UNDO_BLOCKED: "holdfast undo --list shows what was done; holdfast restore REF always works",
    ErrorCode.UNDO_GONE: "holdfast undo --list shows what was done; holdfast restore REF always works",
}
"""What to type next, by error code, where the hint of the error itself speaks of Python. `{hint}` is that one."""


def shell_hint(error: HoldfastError) -> str:
    """What to do next in the words of the command line; a hint that speaks no Python stays."""
    said = error.hint
    speaks_python = "()" in said or "=" in said or ("(" in said and "holdfast " not in said)
    if error.code not in SHELL_HINTS or not speaks_python or said.startswith("did you mean"):
        return said
    return SHELL_HINTS[error.code].replace("{hint}", said)


def run_guarded(cmd: Invocation, action: Callable[[], int | None]) -> int:
    """Run a command; return what the process ends with, having told the person why."""
    try:
        code = action() or 0
        # Python would flush at exit, where a full disk or a closed pipe can no longer be reported.
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
        return 141  # what a shell reports for SIGPIPE, without the noise
    except (KeyboardInterrupt, click.Abort):
        _report(cmd, _record("interrupted", "interrupted", "", 130))
        return 130
    # The boundary: below it errors have types; here every one of them becomes an exit code.
    except Exception as error:  # noqa: BLE001
        if os.environ.get(_DEBUG):
            import traceback

            traceback.print_exc()
        record = describe(error)
        record["hint"] = cmd.pasteable(record["hint"])
        if isinstance(error, OSError):
            _silence(sys.stdout)
        _report(cmd, record)
        return int(record["exit"])
    else:
        return code


def describe(error: BaseException) -> dict[str, Any]:
    """The record of a failure, with the fields that every surface shows."""
    if isinstance(error, HoldfastError):
        return error.to_dict() | {"hint": shell_hint(error)}
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        called = error.ctx.command_path
        hint = f"{called} --help lists the commands"
        if called == "holdfast":
            hint += "; holdfast demo shows them at work"
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


def _report(cmd: Invocation, record: dict[str, Any]) -> None:
    # Nothing can be told when stderr is gone as well; the exit code still says it.
    with contextlib.suppress(OSError, ValueError):
        if cmd.json:
            from holdfast.cli.output import json_text

            details = {key: value for key, value in record["details"].items() if key != "help"}
            document = {"error": {**record, "details": details, "candidates": _candidates(record)}}
            click.echo(json_text(document, indent=None), file=sys.stderr)
        else:
            _report_text(cmd, record)


def _report_text(cmd: Invocation, record: dict[str, Any]) -> None:
    on = cmd.paints(sys.stderr)
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


HABITS = {
    "log": ["list"],
    "ls": ["list"],
    "rm": ["delete"],
    "remove": ["delete"],
    "checkout": ["switch", "restore"],
    "co": ["switch", "restore"],
    "reset": ["restore"],
    "rebase": ["merge"],
    "pull": ["merge"],
    "revert": ["undo", "restore"],
    "rollback": ["undo", "restore"],
    "commit": ["create"],
    "save": ["create"],
    "snapshot": ["create"],
    "add": ["create"],
    "status": ["show"],
    "cat": ["show"],
    "reflog": ["undo --list"],
    "graph": ["tree"],
    "branches": ["branch"],
    "tags": ["tag"],
    "sessions": ["list --sessions"],
    "tail": ["watch"],
    "fsck": ["verify"],
    "check": ["verify"],
    "settings": ["config"],
    "help": ["--help"],
    "version": ["--version"],
}
"""Words of other programs, and the commands that do the same here."""

_REFUSED = re.compile(
    r"^(?P<value>.+?) (?:is not a valid|is not in the range|is not one of|is not a)\b", re.DOTALL
)


def habit(name: str) -> tuple[list[str], str]:
    """The commands that a word of another program stands for, and a hint that says so; nothing for any other word."""
    meant = HABITS.get(name, [])
    commands = " or ".join(f"holdfast {each}" for each in meant)
    return meant, f"did you mean {commands}?" if meant else ""


def in_plain_words(error: click.ClickException, ctx: click.Context | None) -> str:
    """The message of an error of click, without its jargon."""
    message = error.message[:1].lower() + error.message[1:].rstrip(".")
    if isinstance(error, click.NoSuchOption):
        return f"no such option: {error.option_name}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _parameter(error, error.param, message, ctx)
    return message


def behind_dashes(called: str, params: Sequence[click.Parameter]) -> str:
    """How a text that begins with a dash is told from an option, if the command takes a text; otherwise nothing."""
    texts = [each for each in params if isinstance(each, click.Argument) and each.type is click.STRING]
    # A metavar in brackets is for words that the program knows.
    names = [each.human_readable_name for each in texts if not each.human_readable_name.startswith("[")]
    return f"a text that begins with - goes behind --: {called} -- {names[0]}" if names else ""


def _parameter(
    error: click.BadParameter, param: click.Parameter, message: str, ctx: click.Context | None
) -> str:
    named = (param.get_error_hint(ctx) if ctx else param.name or "").replace("'", "")
    if isinstance(error, click.MissingParameter):
        return f"missing {named}"
    wanted, refused = _wanted(param.type), _REFUSED.match(error.message)
    if not wanted or refused is None:
        return f"{named}: {message}"
    value = refused["value"][:60]
    # As it was typed: click has made 0.0 of 0 by then.
    value = value.removesuffix(".0") if isinstance(param.type, click.FloatRange) else value
    return f"{named} must be {wanted} (got {value})"


def _wanted(kind: click.ParamType[Any]) -> str:
    """What a parameter takes."""
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    if isinstance(kind, click.IntRange | click.FloatRange):
        number = "an integer" if isinstance(kind, click.IntRange) else "a number"
        low = "" if kind.min is None else f" {'>' if kind.min_open else '>='} {kind.min:,}"
        high = "" if kind.max is None or kind.max >= 1_000_000 else f" and <= {kind.max:,}"
        return number + low + high
    if kind is click.INT:
        return "an integer"
    return "a number" if kind is click.FLOAT else ""
