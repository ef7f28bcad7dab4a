"""The commands of the notebook: the group `nb`, `exec` and `brief`.

One form for all: `holdfast nb KIND VERB [ID] [TEXT]`; without a verb the items are listed. Each command opens the
notebook of the session, does one thing and saves. Where another process saved meanwhile it is done again on top of
that. Every item is shown with the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import Column, data, record, rows
from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.reports.report import Report

if TYPE_CHECKING:
    from holdfast.agents import Notebook, Workspace

_ATTEMPTS = 20
"""How often a command is done again on a newer state: each time it lost, another writer got on."""
_SCREEN = 40
"""Rows of `nb board` unless --all is given."""

CODE = click.option("--code", metavar="FOLDER", help="Capture the code of this folder from now on")
NO_CODE = click.option("--no-code", is_flag=True, help="Capture no code with this command")

_STYLES = {
    "confirmed": "green",
    "rejected": "red",
    "failed": "red",
    "passed": "green",
    "contradiction": "red",
}
COLUMNS = (
    Column("kind", style="dim", width=13, varied=True),
    Column("id", style="yellow", width=12),
    Column("status", style=lambda row: _STYLES.get(row.status), width=14),
    Column(
        "confidence", lambda row: None if row.confidence is None else f"{row.confidence:.2f}", header="CONF"
    ),
    Column("at", kind="time", header="AGE", style="dim"),
    Column("text", width=10_000),
)


@dataclass(frozen=True)
class Row:
    """An item of a notebook, as it is listed."""

    kind: str
    id: str
    status: str
    confidence: float | None
    at: datetime | None
    text: str
    item: dict[str, Any]


@dataclass(frozen=True)
class NotebookItems(Report):
    """Items of a notebook."""

    session: str
    branch: str
    checkpoint: str | None
    """The newest checkpoint, which has them."""
    items: tuple[dict[str, Any], ...]


# -- opening -------------------------------------------------------------------------------------------------------


def workspace_of(stored: Any, code: str | None) -> Workspace | None:
    """The folder whose code belongs to a notebook: what was named, else what it has, else the repository we are in."""
    from holdfast.agents import Workspace

    if code is not None:
        return Workspace(code)
    if stored is not None and Path(stored["root"]).is_dir():
        return Workspace(stored["root"])
    here = Path.cwd()
    if any((each / ".git").exists() for each in (here, *here.parents)):
        try:
            return Workspace(here)
        except InvalidInputError:
            # The home folder is a repository of some people, and no project.
            return None
    return None


def notebook_in(session: Any, code: str | None = None, *, no_code: bool = False) -> Notebook:
    """The notebook of a session; it raises where another writer is faster."""
    from holdfast.agents import Notebook

    nb = Notebook(session, on_conflict="raise")
    if not no_code:
        nb.use(workspace_of(nb.state().workspace, code))
    return nb


@contextmanager
def reading(cmd: Invocation) -> Iterator[Notebook]:
    """The notebook of a session that is there, to look at."""
    from holdfast.agents import Notebook

    with cmd.open_session() as (store, session):
        cmd.check_session(store)
        yield Notebook(session, writable=False)


def _change(
    cmd: Invocation,
    work: Callable[[Notebook], Any],
    message: str,
    code: str | None = None,
    *,
    no_code: bool = False,
) -> tuple[Any, Notebook]:
    """Do one thing to the notebook and save it, on whatever is newest."""
    with cmd.open_or_make() as store:
        for attempt in range(_ATTEMPTS):
            nb = notebook_in(cmd.session_of(store), code, no_code=no_code)
            try:
                done = work(nb)
                nb.flush(message)
            except ConflictError as conflict:
                if conflict.code is not ErrorCode.BRANCH_MOVED or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return done, nb
    raise AssertionError("the loop returns or raises")


# -- rows ----------------------------------------------------------------------------------------------------------


def _rows_of(kind: str, items: Sequence[dict[str, Any]]) -> list[Row]:
    return [_ROWS[kind](each) for each in items]


def _plain_row(
    kind: str, text: str, status: str = "status", at: str = "created_at"
) -> Callable[[dict[str, Any]], Row]:
    def made(item: dict[str, Any]) -> Row:
        return Row(
            kind,
            item.get("id", ""),
            str(item.get(status, "")),
            item.get("confidence"),
            item.get(at),
            item.get(text, ""),
            item,
        )

    return made


def _evidence_row(item: dict[str, Any]) -> Row:
    side = "for" if item["supports"] else "against"
    return Row(
        "evidence",
        item["id"],
        f"{side} {item['hypothesis']}",
        item["strength"],
        item["created_at"],
        item["content"],
        item,
    )


def _gap_row(item: dict[str, Any]) -> Row:
    status = item["criticality"] if item["status"] == "open" else "filled"
    text = item["question"] if item["status"] == "open" else f"{item['question']} {item['answer']}"
    return Row("gap", item["id"], status, None, item["created_at"], text, item)


def _check_row(item: dict[str, Any]) -> Row:
    status = "passed" if item["passed"] else "failed"
    return Row(
        "check",
        item["id"],
        status,
        None,
        item["timestamp"],
        f"{item['name']}: {item['command']}".rstrip(": "),
        item,
    )


def _command_row(item: dict[str, Any]) -> Row:
    return Row(
        "command", item["id"], f"exit {item['exit_code']}", None, item["timestamp"], item["command"], item
    )


def _experiment_row(item: dict[str, Any]) -> Row:
    text = f"{item['name']}: {item['lesson'] or item['purpose'] or item['branch']}"
    return Row("experiment", item["id"], item["status"], None, item["created_at"], text, item)


_ROWS: dict[str, Callable[[dict[str, Any]], Row]] = {
    "hypothesis": _plain_row("hypothesis", "statement"),
    "belief": _plain_row("belief", "statement"),
    "note": _plain_row("note", "text", status="kind"),
    "evidence": _evidence_row,
    "gap": _gap_row,
    "check": _check_row,
    "command": _command_row,
    "experiment": _experiment_row,
}


def _write(cmd: Invocation, nb: Notebook, found: Sequence[Row]) -> None:
    def report() -> Report:
        items = tuple({"kind": row.kind, **row.item} for row in found)
        return NotebookItems(nb.session.id, nb.session.branch, nb.last.id if nb.last else None, items)

    rows(cmd, found, COLUMNS, report)


# -- one form for all ----------------------------------------------------------------------------------------------

Verb = Callable[["Notebook", list[str], dict[str, Any]], Any]


@dataclass(frozen=True)
class Kind:
    """What can be done with one kind of item: verbs, each with the names of the words it takes."""

    name: str
    all: Callable[[Notebook], list[dict[str, Any]]]
    get: Callable[[Notebook, str], dict[str, Any]]
    verbs: dict[str, tuple[str, Verb]]

    def run(self, cmd: Invocation, words: tuple[str, ...], given: dict[str, Any]) -> None:
        """Do what the words say, and show the item, or list all."""
        verb, rest = (words[0], list(words[1:])) if words else ("list", [])
        if verb in ("list", "show"):
            self._look(cmd, verb, rest)
            return
        if verb not in self.verbs:
            raise InvalidInputError(
                f"nb {self.name} has no verb {verb!r}",
                code=ErrorCode.BAD_ARGUMENT,
                hint=f"use one of: {', '.join([*self.verbs, 'list', 'show'])}",
            )
        wanted, work = self.verbs[verb]
        if len(rest) != len(wanted.split()):
            raise click.UsageError(f"holdfast nb {self.name} {verb} {wanted}: {len(rest)} words were given")
        place = {"code": given.pop("code"), "no_code": given.pop("no_code")}
        message = f"{self.name} {verb}: {' '.join(rest)}"[:200]
        done, nb = _change(cmd, lambda nb: work(nb, rest, given), message, **place)
        for text in _told(done):
            cmd.say(text)
        item = done if isinstance(done, str) else str(done["id"]) if isinstance(done, dict) else rest[0]
        _write(cmd, nb, _rows_of(self.name, [self.get(nb, item)]))

    def _look(self, cmd: Invocation, verb: str, rest: list[str]) -> None:
        if len(rest) > 1 or (verb == "show" and not rest):
            raise click.UsageError(f"holdfast nb {self.name} show ID, or list")
        with reading(cmd) as nb:
            found = [self.get(nb, rest[0])] if rest else self.all(nb)
            _write(cmd, nb, _rows_of(self.name, found))
            if verb == "show" and cmd.for_people():
                for name, value in found[0].items():
                    data(f"  {name}: {value}")


def _told(done: Any) -> Iterator[str]:
    """What to say about the result of a verb that is more than an item."""
    if hasattr(done, "falls"):
        for name, way in done.falls.items():
            yield f"{name} falls with it: {' rests on '.join(way)}"
        if done.weakened:
            yield f"weakened: {', '.join(done.weakened)}"
    if getattr(done, "conflicts", None):
        for each in done.conflicts:
            yield f"conflict at {each.path}: holdfast merge settles it"


def _options(*names: str) -> Callable[[Any], Any]:
    known = {
        "confidence": click.option(
            "--confidence", type=float, default=0.5, help="From 0 to 1", show_default=True
        ),
        "evidence": click.option("--evidence", default="", metavar="TEXT", help="What was seen"),
        "reason": click.option("--reason", default="", metavar="TEXT", help="Why"),
        "source": click.option("--source", default="", metavar="TEXT", help="Where it comes from"),
        "by": click.option("--by", multiple=True, metavar="ID", help="What takes its place, or answers it"),
        "strength": click.option(
            "--strength", type=float, default=0.5, help="From 0 to 1", show_default=True
        ),
        "against": click.option("--against", is_flag=True, help="It speaks against the hypothesis"),
        "cascade": click.option("--cascade", is_flag=True, help="Give up what rests on it, too"),
        "criticality": click.option(
            "--criticality", default="medium", metavar="LEVEL", help="critical, high, medium or low"
        ),
        "blocks": click.option("--blocks", multiple=True, metavar="ID", help="What waits for the answer"),
        "kind": click.option("--kind", default="note", metavar="KIND", help="note, goal, next or lesson"),
        "purpose": click.option("--purpose", default="", metavar="TEXT", help="What it is to show"),
        "files": click.option(
            "--files", is_flag=True, help="The files are part of it: abandoning brings them back"
        ),
        "command": click.option(
            "--command", metavar="CMD", help="The command to run; else the one it had last"
        ),
        "expect": click.option("--expect", default="", metavar="TEXT", help="What the output must have"),
        "exit": click.option(
            "--exit", "exit_code", type=int, default=0, metavar="N", help="What it must end with"
        ),
        "timeout": click.option(
            "--timeout", type=float, metavar="S", help="Seconds after which it has failed"
        ),
    }

    def apply(function: Any) -> Any:
        for name in reversed(names):
            function = known[name](function)
        return click.argument("words", nargs=-1, metavar="[VERB ID TEXT]")(CODE(NO_CODE(function)))

    return apply


def _one(by: Sequence[str]) -> str:
    if len(by) != 1:
        raise click.UsageError("--by names the hypothesis that takes its place")
    return by[0]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no number from 0 to 1") from None


HYPOTHESIS = Kind(
    "hypothesis",
    lambda nb: nb.board.all(),
    lambda nb, name: nb.board.get(name),
    {
        "add": ("TEXT", lambda nb, w, o: nb.board.add(w[0], confidence=o["confidence"])),
        "test": ("ID", lambda nb, w, o: nb.board.test(w[0], reason=o["reason"])),
        "confirm": (
            "ID",
            lambda nb, w, o: nb.board.confirm(w[0], evidence=o["evidence"], reason=o["reason"]),
        ),
        "reject": ("ID", lambda nb, w, o: nb.board.reject(w[0], evidence=o["evidence"], reason=o["reason"])),
        "reopen": ("ID", lambda nb, w, o: nb.board.set_status(w[0], "open", reason=o["reason"])),
        "supersede": ("ID", lambda nb, w, o: nb.board.supersede(w[0], _one(o["by"]), reason=o["reason"])),
        "confidence": (
            "ID NUMBER",
            lambda nb, w, o: nb.board.set_confidence(w[0], _number(w[1]), reason=o["reason"]),
        ),
        "follow": ("ID", lambda nb, w, _: nb.board.follow_evidence(w[0])),
    },
)
EVIDENCE = Kind(
    "evidence",
    lambda nb: nb.board.evidence(),
    lambda nb, name: nb.board.get_evidence(name),
    {
        "add": (
            "HYPOTHESIS TEXT",
            lambda nb, w, o: nb.board.add_evidence(
                w[0], w[1], supports=not o["against"], strength=o["strength"], source=o["source"]
            ),
        ),
    },
)
BELIEF = Kind(
    "belief",
    lambda nb: nb.beliefs.all(),
    lambda nb, name: nb.beliefs.get(name),
    {
        "add": (
            "TEXT",
            lambda nb, w, o: nb.beliefs.add(
                w[0], confidence=o["confidence"], source=o["source"], reason=o["reason"]
            ),
        ),
        "link": ("ID KIND ID", lambda nb, w, o: nb.beliefs.link(*w, reason=o["reason"]) and None),
        "unlink": ("ID KIND ID", lambda nb, w, _: nb.beliefs.unlink(*w) and None),
        "confidence": (
            "ID NUMBER",
            lambda nb, w, o: nb.beliefs.set_confidence(w[0], _number(w[1]), reason=o["reason"]),
        ),
        "retract": (
            "ID",
            lambda nb, w, o: nb.beliefs.retract(w[0], reason=o["reason"], cascade=o["cascade"]),
        ),
        "hold": ("ID", lambda nb, w, o: nb.beliefs.hold(w[0], reason=o["reason"])),
    },
)
GAP = Kind(
    "gap",
    lambda nb: nb.gaps.all(),
    lambda nb, name: nb.gaps.get(name),
    {
        "add": ("TEXT", lambda nb, w, o: nb.gaps.add(w[0], criticality=o["criticality"], blocks=o["blocks"])),
        "fill": ("ID TEXT", lambda nb, w, o: nb.gaps.fill(w[0], w[1], by=o["by"])),
        "reopen": ("ID", lambda nb, w, _: nb.gaps.reopen(w[0])),
    },
)
NOTE = Kind(
    "note",
    lambda nb: nb.notes.all(),
    lambda nb, name: nb.notes.get(name),
    {
        "add": ("TEXT", lambda nb, w, o: nb.notes.add(w[0], kind=o["kind"])),
        "done": ("ID", lambda nb, w, _: nb.notes.done(w[0])),
    },
)
EXPERIMENT = Kind(
    "experiment",
    lambda nb: nb.experiments.all(),
    lambda nb, name: nb.experiments.get(name),
    {
        "start": ("NAME", lambda nb, w, o: nb.experiments.start(w[0], purpose=o["purpose"], code=o["files"])),
        "switch": ("ID", lambda nb, w, _: nb.experiments.switch(w[0]) and None),
        "merge": ("ID", lambda nb, w, _: nb.experiments.merge(w[0])),
        "abandon": ("ID LESSON", lambda nb, w, _: nb.experiments.abandon(w[0], w[1])),
    },
)
CHECK = Kind(
    "check",
    lambda nb: nb.checks.all(),
    lambda nb, name: nb.checks.get(name),
    {
        "run": (
            "NAME",
            lambda nb, w, o: nb.checks.run(
                w[0],
                o["command"],
                expect=o["expect"],
                exit_code=o["exit_code"],
                cwd=Path.cwd(),
                timeout=o["timeout"],
            ),
        ),
    },
)


@command(
    "nb hypothesis",
    """What might be the cause, and the verdict on it.

    Verbs: add TEXT, test ID, confirm ID, reject ID, reopen ID, supersede ID --by ID, confidence ID NUMBER, follow ID
    (let the confidence follow the evidence again), list, show ID.

    \b
    Examples:
      holdfast nb hypothesis add "the scale is applied twice"
      holdfast nb hypothesis confirm h1 --evidence "dividing once gives the right numbers"
      holdfast nb hypothesis
    """,
)
@_options("confidence", "evidence", "reason", "by")
def hypothesis(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> None:
    """Do one thing with hypotheses."""
    HYPOTHESIS.run(cmd, words, given)


@command(
    "nb evidence",
    """What speaks for or against a hypothesis; its confidence follows.

    Verbs: add HYPOTHESIS TEXT, list, show ID.

    \b
    Examples:
      holdfast nb evidence add h1 "the ratio is two" --strength 0.8 --source c3
      holdfast nb evidence add h1 "not on the CPU" --against
    """,
)
@_options("against", "strength", "source")
def evidence(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> None:
    """Do one thing with evidence."""
    EVIDENCE.run(cmd, words, given)


@command(
    "nb belief",
    """What is held to be true, what it rests on, since when and why.

    Verbs: add TEXT, link ID KIND ID (supports, contradicts, requires, derived_from), unlink, confidence ID NUMBER,
    retract ID, hold ID, why ID (since when it is believed), list, show ID.

    \b
    Examples:
      holdfast nb belief add "the input is right" --confidence 0.9
      holdfast nb belief link b2 requires b1
      holdfast nb belief why b1
    """,
)
@_options("confidence", "source", "reason", "cascade")
def belief(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> None:
    """Do one thing with beliefs."""
    if words[:1] != ("why",):
        BELIEF.run(cmd, words, given)
        return
    if len(words) != 2:
        raise click.UsageError("holdfast nb belief why ID")
    with reading(cmd) as nb:
        found = nb.why(words[1])
    since = f"#{found.since.seq}, {cmd.when(found.since.created_at)}" if found.since else "it is not held"
    lines = [("belief", found.statement), ("held since", since), ("why", found.why)]
    lines += [
        (f"#{each['seq']}", f"{each['confidence']:.2f} {each['status']} {each['reason']}")
        for each in found.history
    ]
    record(cmd, found.to_dict(), lines)


@command(
    "nb gap",
    """What is not known yet, and what answered it.

    Verbs: add TEXT, fill ID TEXT, reopen ID, list, show ID.

    \b
    Examples:
      holdfast nb gap add "which rounding does the kernel use?" --criticality high --blocks h1
      holdfast nb gap fill g1 "to even" --by ev2
    """,
)
@_options("criticality", "blocks", "by")
def gap(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> None:
    """Do one thing with gaps."""
    GAP.run(cmd, words, given)


@command(
    "nb note",
    """Notes: observations, the goal, what to do next, lessons.

    Verbs: add TEXT, done ID (it leaves the brief), list, show ID.

    \b
    Examples:
      holdfast nb note add "find out why the output is NaN" --kind goal
      holdfast nb note add "only on the GPU"
    """,
)
@_options("kind")
def note(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> None:
    """Do one thing with notes."""
    NOTE.run(cmd, words, given)


@command(
    "nb experiment",
    """Ideas that are tried on a branch of the notebook.

    Verbs: start NAME, switch ID (or main), merge ID, abandon ID LESSON, list, show ID. With --files the working folder
    belongs to it: abandoning the experiment brings the files back, with a safety checkpoint first.

    \b
    Examples:
      holdfast nb experiment start "skip the norm" --purpose "is it needed?"
      holdfast nb experiment abandon x1 "it is needed: the loss explodes"
    """,
)
@_options("purpose", "files")
def experiment(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> None:
    """Do one thing with experiments."""
    if words[:1] == ("switch",) and len(words) == 2 and not words[1].startswith("x"):
        place = {"code": given["code"], "no_code": given["no_code"]}
        _, nb = _change(cmd, lambda nb: nb.experiments.switch(words[1]), "switch", **place)
        _write(cmd, nb, _rows_of("experiment", nb.experiments.all()))
        return
    EXPERIMENT.run(cmd, words, given)


@command(
    "nb check",
    """Commands with an expectation, run as often as wanted; the exit code is 1 if it failed.

    Verbs: run NAME (with --command the first time), flaky (those that pass and fail on the same code), list, show ID.

    \b
    Examples:
      holdfast nb check run tests --command "true"
      holdfast nb check run tests
    """,
)
@_options("command", "expect", "exit", "timeout")
def check(cmd: Invocation, *, words: tuple[str, ...], **given: Any) -> int | None:
    """Do one thing with checks."""
    if words == ("flaky",):
        with reading(cmd) as nb:
            latest, names = nb.checks.latest(), nb.checks.flaky()
            _write(cmd, nb, _rows_of("check", [latest[name] for name in names]))
        return None
    CHECK.run(cmd, words, given)
    if words[:1] != ("run",):
        return None
    with reading(cmd) as nb:
        return 0 if nb.checks.latest()[words[1]]["passed"] else 1


# -- the whole -----------------------------------------------------------------------------------------------------


@command(
    "nb board",
    """Everything on one screen: contradictions, open gaps, failing checks, hypotheses, beliefs, experiments.

    \b
    Examples:
      holdfast nb board
      holdfast nb board --all
    """,
)
@click.option("--all", "whole", is_flag=True, help="Also notes, evidence, commands and what is settled")
def board(cmd: Invocation, *, whole: bool) -> None:
    """Show the board."""
    with reading(cmd) as nb:
        found = [
            Row(
                "contradiction",
                "",
                "contradiction",
                None,
                None,
                " ".join(f"{a} {k} {b};" for a, k, b in each.path),
                each.to_dict(),
            )
            for each in nb.contradictions()
        ]
        latest = list(reversed(nb.checks.latest().values()))
        order = ("testing", "open", "confirmed", "rejected", "superseded")
        newest = list(reversed(nb.board.all()))
        hypotheses = [each for status in order for each in newest if each["status"] == status]
        beliefs = nb.beliefs.all(held=True)[::-1]
        beliefs.sort(key=lambda each: -each["confidence"])
        found += _rows_of("gap", nb.gaps.open())
        found += _rows_of("check", [each for each in latest if not each["passed"]])
        found += _rows_of("hypothesis", hypotheses)
        found += _rows_of("belief", beliefs)
        found += _rows_of("experiment", list(reversed(nb.experiments.all())))
        if whole:
            found += _rows_of("gap", [each for each in nb.gaps.all() if each["status"] != "open"])
            found += _rows_of("check", [each for each in latest if each["passed"]])
            found += _rows_of("evidence", nb.board.evidence())
            found += _rows_of("note", nb.notes.all())
            found += _rows_of("command", nb.commands.all())
        shown = found if whole or cmd.json else found[:_SCREEN]
        _write(cmd, nb, shown)
        if len(shown) < len(found):
            cmd.say(f"{len(found) - len(shown)} omitted: holdfast nb board --all shows them")
        if not found:
            cmd.say('nothing yet: holdfast nb hypothesis add "..." begins')


@command(
    "exec",
    """Run a command, show its output, and keep it in the notebook: command, folder, exit code, time, previews.

    The exit code is that of the command, whatever happens to the record. Secrets in the command line and in the output
    are replaced before anything is stored.

    \b
    Examples:
      holdfast exec -- true
      holdfast exec --replay -- true
    """,
)
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND", type=click.UNPROCESSED)
@click.option("--replay", is_flag=True, help="Run it again when a recovery point is carried out")
@CODE
@NO_CODE
def exec_(cmd: Invocation, *, words: tuple[str, ...], replay: bool, code: str | None, no_code: bool) -> int:
    """Run it and pass the exit code on."""
    from holdfast.errors import HoldfastError
    from holdfast.workspace.commands import run_command

    done = run_command(list(words), show=not cmd.json, stdin=0)
    try:
        name, nb = _change(
            cmd,
            lambda nb: nb.commands.record(done, replay=replay),
            f"exit {done.exit_code}: {done.command}"[:200],
            code,
            no_code=no_code,
        )
    except HoldfastError as error:
        # What ran has run: its exit code is what scripts need.
        cmd.say(f"the command is not in the notebook: {error}", label="warning: ", style="yellow")
        return done.exit_code
    if cmd.json:
        _write(cmd, nb, _rows_of("command", [nb.commands.get(name)]))
    return done.exit_code
