"""Commands about plans: run, resume, status, approve, cancel, show, diff and whatif, under `holdfast plan`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import Column, data, document, json_text, record, rows
from holdfast.cli.terminal import escape_controls, paint
from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from holdfast import Executor, Store
    from holdfast.agents import ExecutionResult

_EXITS = {"completed": 0, "failed": 1, "cancelled": 1, "paused": 3, "waiting": 3}
"""What `run` and `resume` end with: 3 is for what can go on."""
_STYLES = {"completed": "green", "failed": "red", "running": "cyan", "skipped": "yellow"}
_MARKS = {"completed": "+", "failed": "x", "running": ">", "skipped": "-", "pending": "."}

_STEPS = (
    Column("id", "id", header="STEP", width=30, style="blue"),
    Column("status", style=lambda row: _STYLES.get(row.status)),
    Column("attempt", kind="count"),
    Column(
        "duration_ms",
        lambda row: None if row.duration_ms is None else round(row.duration_ms),
        kind="count",
        header="MS",
    ),
    Column("tokens", kind="count"),
    Column("cost_usd", kind="cost", header="COST"),
    Column("dependencies", kind="list", header="AFTER", width=24),
    Column("action", width=24, terminal=False),
    Column("next_attempt_at", kind="time", header="AGAIN"),
    Column("error", width=40, style="red"),
    Column("reason", width=30, header="AGAIN BECAUSE"),
    Column("description", width=10_000),
)
_VARIANTS = (
    Column("parameters", lambda row: json_text(row.parameters, indent=None), width=40, style="blue"),
    Column("status", style=lambda row: _STYLES.get(row.status)),
    Column("duration_ms", lambda row: round(row.duration_ms), kind="count", header="MS"),
    Column("tokens", kind="count"),
    Column("cost_usd", kind="cost", header="COST"),
    Column("reused", kind="count"),
    Column("branch", width=20),
    Column("outcome", lambda row: _short(row.outcome), width=10_000),
)

ACTIONS = click.option(
    "--actions", multiple=True, metavar="MODULE", help="Import this first: its @action functions have names"
)
WORKERS = click.option(
    "--workers", type=click.IntRange(min=1), default=4, metavar="N", help="Steps at once  [default: 4]"
)
DASK = click.option("--dask", metavar="ADDRESS", help="Run steps on this Dask cluster")
ON_FAILURE = click.option(
    "--on-failure",
    type=click.Choice(["stop", "skip", "continue"]),
    default="stop",
    help="What a failed step means",
)
CHANGED = (
    click.option(
        "--rerun-changed", is_flag=True, help="The plan has changed: run that again, and what follows"
    ),
    click.option(
        "--keep-results", is_flag=True, help="The plan has changed: keep the results that there are"
    ),
)


def _changed(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(CHANGED):
        function = option(function)
    return function


@command(
    "plan run",
    """Run a plan: a checkpoint after each step. The same command goes on where it was cut off.

    FILE is YAML or JSON: a list of steps, each with id, action, parameters and dependencies. On a terminal a line for
    each thing that happens; in a pipe, and with --json, JSON Lines. Ctrl-C pauses with a checkpoint. Ends with 0 if the
    plan is done, 1 if it failed, 3 if it is paused or waits for a person.

    \b
    Examples:
      holdfast plan run plan.yaml --session report-7
      holdfast plan run plan.yaml --workers 8 --on-failure skip
    """,
)
@click.argument("file", type=click.Path(exists=False))
@click.option("--new", is_flag=True, help="Begin anew, also where one is unfinished")
@WORKERS
@DASK
@ON_FAILURE
@ACTIONS
@_changed
def run(cmd: Invocation, file: str, *, new: bool, **given: Any) -> int:
    """Run it, and say how it ended."""
    _import_actions(given["actions"])
    from holdfast import Plan

    # Before the store is made: what cannot run must not leave an empty one behind.
    plan = Plan.load(file)
    plan.check()
    with cmd.open_or_make() as store, _executor(cmd, store, given) as executor:
        return _work(cmd, executor, lambda: executor.run(plan, False if new else None, **_choices(given)))


@command(
    "plan resume",
    """Go on with the unfinished execution of the session, with the plan that is stored with it.

    With --all, go on with every unfinished execution of the store that nobody works on; several processes may do so at
    once.

    \b
    Examples:
      holdfast plan resume --session report-7
      holdfast plan resume --all
    """,
)
@click.option("--all", "everything", is_flag=True, help="Every unfinished execution of the store")
@WORKERS
@DASK
@ON_FAILURE
@ACTIONS
@_changed
def resume(cmd: Invocation, *, everything: bool, **given: Any) -> int:
    """Go on, and say how it ended."""
    _import_actions(given["actions"])
    if not everything:
        with cmd.open() as store, _executor(cmd, store, given) as executor:
            return _work(cmd, executor, lambda: executor.resume(**_choices(given)))
    from holdfast.agents.executor.fleet import run_all

    with cmd.open() as store, _pool(given["dask"]) as pool:
        results = run_all(store, workers=given["workers"], on_failure=given["on_failure"], pool=pool)
    for each in results:
        data(
            json_text({"execution": each.execution, "status": each.status, "error": each.error}, indent=None)
        )
    # What is still open could not be run here.
    return max([_EXITS.get(each.status, 1) for each in results], default=0)


@command(
    "plan status",
    """Show where the execution of the session is: a row for each step, what waits for a person, which effects happened.

    \b
    Examples:
      holdfast plan status --session report-7
      holdfast plan status --json
    """,
)
def status(cmd: Invocation) -> None:
    """Print the steps."""
    with cmd.open() as store:
        found = _plain_executor(cmd, store).status()
    rows(cmd, found.steps, _STEPS, lambda: found)
    running = "somebody works on it" if found.running else "nobody works on it"
    cmd.say(f"{found.plan}: {found.status}, {found.done} of {len(found.steps)} steps done, {running}")
    if found.error:
        cmd.say(escape_controls(found.error), label="error: ", style="red")
    for each in found.waiting:
        _say_waiting(cmd, each)
    for effect in found.effects:
        happened = "happened" if effect.happened else "may have happened"
        cmd.say(
            f"{effect.step} ({effect.kind}) {happened} at {cmd.when(effect.at)}, key {effect.key}",
            label="effect: ",
        )


@command(
    "plan approve",
    """Decide about a step that waits for a person; the first decision wins. Then resume.

    A step that may happen at most once and was cut off is settled with --again or --happened.

    \b
    Examples:
      holdfast plan approve publish --by ada
      holdfast plan approve publish --set place=archive
      holdfast plan approve publish --reject --note 'too early'
    """,
)
@click.argument("step")
@click.option("--reject", is_flag=True, help="Do not agree: the step fails")
@click.option("--set", "edits", multiple=True, metavar="NAME=VALUE", help="Agree with another parameter")
@click.option("--again", is_flag=True, help="It was cut off and did not happen: it may run")
@click.option("--happened", metavar="JSON", help="It was cut off and happened, and this is its output")
@click.option("--by", metavar="WHO", help="Who decides")
@click.option("--note", metavar="TEXT", help="Why")
def approve(
    cmd: Invocation,
    step: str,
    *,
    reject: bool,
    edits: Sequence[str],
    again: bool,
    happened: str | None,
    by: str | None,
    note: str | None,
) -> None:
    """Write the decision down."""
    if sum((reject, bool(edits), again, happened is not None)) > 1:
        raise click.UsageError("--reject, --set, --again and --happened exclude each other")
    with cmd.open() as store:
        executor = _plain_executor(cmd, store)
        if reject:
            made = executor.reject(step, by=by, note=note)
        elif again or happened is not None:
            made = executor.settle(
                step, output=None if again else _value(happened or "null"), again=again, by=by
            )
        else:
            parameters = {name: values[0] for name, values in _settings(edits).items()} or None
            made = executor.approve(step, parameters=parameters, by=by, note=note)
    plain = made._asdict() | {"at": made.at.isoformat()}
    record(cmd, plain, [("step", made.step), ("decision", made.decision), ("by", made.by or "")])
    if not made.first:
        cmd.say(
            f"it was {made.decision} before{f' by {made.by}' if made.by else ''}: that stays",
            label="note: ",
            style="yellow",
        )
    cmd.say("holdfast plan resume goes on")


@command(
    "plan cancel",
    """End the execution of the session, also one that another process works on. Its checkpoints stay.

    \b
    Examples:
      holdfast plan cancel --session report-7
    """,
)
def cancel(cmd: Invocation) -> None:
    """Ask for it."""
    with cmd.open() as store:
        executor = _plain_executor(cmd, store)
        executor.cancel()
        found = executor.status()
    record(cmd, {"execution": found.execution, "status": found.status}, [("status", found.status)])
    if found.status != "cancelled":
        cmd.say("whoever works on it ends it within a second")


@command(
    "plan show",
    """Draw a plan: each step below those that it depends on. Without FILE, the plan of the session, with its statuses.

    \b
    Examples:
      holdfast plan show plan.yaml
      holdfast plan show --session report-7
    """,
)
@click.argument("file", required=False)
def show(cmd: Invocation, file: str | None) -> None:
    """Draw it."""
    from holdfast import Plan

    if file is not None:
        plan = Plan.load(file)
        plan.check_steps()
        steps = [each.to_dict() for each in plan.steps]
        name = plan.name
    else:
        with cmd.open() as store:
            found = _plain_executor(cmd, store).status()
        name = found.plan
        steps = [
            {
                "id": each.id,
                "status": each.status,
                "dependencies": each.dependencies,
                "description": each.description,
                "action": each.action,
            }
            for each in found.steps
        ]
    if cmd.json:
        document({"plan": name, "steps": steps})
        return
    on = cmd.paints(sys.stdout)
    for depth, step in _drawn(steps):
        after = f"  <- {', '.join(step['dependencies'])}" if step["dependencies"] else ""
        text = f"{'  ' * depth}{_MARKS.get(step['status'], '.')} {step['id']}  {step['description'] or step['action']}"
        data(
            paint(escape_controls(text), _STYLES.get(step["status"], ""), on=on) + escape_controls(after),
            color=on,
        )


@command(
    "plan diff",
    """Show how a plan differs from the one that the session's execution has. Ends with 1 if it does.

    \b
    Examples:
      holdfast plan diff plan.yaml --session report-7  # exit 1
    """,
)
@click.argument("file")
@ACTIONS
def diff(cmd: Invocation, file: str, *, actions: Sequence[str]) -> int:
    """Print a line for each step that differs."""
    _import_actions(actions)
    with cmd.open() as store:
        found = _plain_executor(cmd, store).diff(file)
    if cmd.json:
        document(found.to_dict())
    else:
        for line in found.lines():
            data(escape_controls(line))
    return 1 if found else 0


@command(
    "plan whatif",
    """Run what follows from a step with other parameters: a fork for each value, results before it reused.

    \b
    Examples:
      holdfast plan whatif ask --set model=a,b,c --session report-7
    """,
)
@click.argument("step")
@click.option("--set", "edits", multiple=True, required=True, metavar="NAME=A,B,C", help="The values to try")
@WORKERS
@ACTIONS
def whatif(cmd: Invocation, step: str, *, edits: Sequence[str], workers: int, actions: Sequence[str]) -> None:
    """Print a row for each variant."""
    from itertools import product

    _import_actions(actions)
    chosen = _settings(edits, many=True)
    variants = [dict(zip(chosen, each, strict=True)) for each in product(*chosen.values())]
    with cmd.open() as store:
        table = _plain_executor(cmd, store, workers=workers).whatif(step, variants)
    rows(cmd, table.variants, _VARIANTS, lambda: table)


# ----------------------------------------------------------------------------------------------------------------------


def _plain_executor(cmd: Invocation, store: Store, **options: Any) -> Executor:
    from holdfast import Executor

    cmd.check_session(store)
    return Executor(cmd.session_of(store), **options)


@contextmanager
def _executor(cmd: Invocation, store: Store, given: Mapping[str, Any]) -> Iterator[Executor]:
    import holdfast
    from holdfast import Executor

    options = {"workers": given["workers"], "on_failure": given["on_failure"]}
    settings = holdfast.Settings.load(cmd.config, store=cmd.store)
    with _pool(given["dask"]) as pool:
        yield Executor(cmd.session_of(store), settings=settings, pool=pool, **options)


@contextmanager
def _pool(address: str | None) -> Iterator[Any]:
    """A Dask cluster as a pool; None without an address: threads."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise UnsupportedError(
            "Dask is not installed",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[dask]'",
        ) from error
    with Client(address) as client:  # type: ignore[no-untyped-call]
        yield client.get_executor(pure=False, retries=0)


def _choices(given: Mapping[str, Any]) -> dict[str, bool]:
    return {name: given[name] for name in ("rerun_changed", "keep_results")}


def _work(cmd: Invocation, executor: Executor, work: Callable[[], ExecutionResult]) -> int:
    """Run, tell what happens, and pause on Ctrl-C; a second Ctrl-C leaves at once."""
    told = _Teller(cmd)
    # One subscription: what two would hear comes in no order.
    executor.events.subscribe("*", told.tell)

    def pause(number: int, _frame: Any) -> None:
        signal.signal(number, signal.default_int_handler)
        executor.pause()

    before = {each: signal.signal(each, pause) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        result = work()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        executor.events.flush(60)
    for waiting in result.waiting:
        _say_waiting(cmd, waiting)
    if result.status in ("paused", "failed"):
        cmd.say("holdfast plan resume goes on")
    return _EXITS[result.status]


def _say_waiting(cmd: Invocation, waiting: Any) -> None:
    import shlex

    step = shlex.quote(waiting.step)
    if waiting.kind == "approve":
        cmd.say(
            f"{waiting.step} waits for a person: holdfast plan approve {step}",
            label="waiting: ",
            style="yellow",
        )
    else:
        cmd.say(
            f"{waiting.step} was cut off and may have happened: "
            f"holdfast plan approve {step} --again, or --happened JSON",
            label="waiting: ",
            style="yellow",
        )


class _Teller:
    """Writes a line for each event: for people on a terminal, as JSON Lines otherwise."""

    def __init__(self, cmd: Invocation) -> None:
        self._cmd = cmd
        self._people = cmd.for_people()

    def tell(self, event: Any) -> None:
        """Write one event; checkpoints go without saying."""
        if event.type.startswith("checkpoint."):
            return
        if not self._people:
            data(json_text(event.to_dict(), indent=None))
        elif line := self._line(event.type, event.data):
            style, text = line
            on = self._cmd.paints(sys.stdout)
            data(paint(escape_controls(text), style, on=on), color=on)
        sys.stdout.flush()

    def _line(self, kind: str, told: Mapping[str, Any]) -> tuple[str, str] | None:
        step = told.get("step", "")
        if kind == "execution.started":
            return ("dim", f"{told['recovered']} steps are done already") if told["recovered"] else None
        if kind.startswith("execution."):
            why = f": {told['error']}" if told.get("error") else ""
            return "bold", kind.removeprefix("execution.") + why
        style, mark, words = _LINES.get(kind, ("", "", None))
        return None if words is None else (style, f"{mark} {step}  {words(told)}".rstrip())


def _ended(told: Mapping[str, Any]) -> str:
    used = f"  {told['tokens']:,} tokens" if told.get("tokens") else ""
    cost = f"  ${told['cost_usd']:.4g}" if told.get("cost_usd") else ""
    return f"{told['duration_ms']:,.0f} ms{used}{cost}"


def _progress(told: Mapping[str, Any]) -> str:
    part = "" if told["fraction"] is None else f"{told['fraction']:4.0%}  "
    return f"{part}{told['message']}"


_LINES: dict[str, tuple[str, str, Callable[[Mapping[str, Any]], str]]] = {
    "step.started": ("cyan", ">", lambda told: f"attempt {told['attempt']}" if told["attempt"] > 1 else ""),
    "step.progress": ("dim", " ", _progress),
    "step.completed": ("green", "+", _ended),
    "step.retrying": ("yellow", "~", lambda told: f"{told['error']}; again in {told['seconds']:.1f} s"),
    "step.failed": ("red", "x", lambda told: told["error"]),
}
"""For each event of a step: its colour, its mark, and what is said about it."""


def _drawn(steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The steps of a checked plan with how deep each lies below those that it depends on."""
    depth: dict[str, int] = {}
    left = list(steps)
    while left:
        later = []
        for step in left:
            if all(other in depth for other in step["dependencies"]):
                depth[step["id"]] = 1 + max((depth[other] for other in step["dependencies"]), default=-1)
                yield depth[step["id"]], step
            else:
                later.append(step)
        left = later


def _settings(edits: Sequence[str], *, many: bool = False) -> dict[str, list[Any]]:
    """`name=value`, or with `many` `name=a,b,c`; a value is JSON where it can be, else text."""
    found: dict[str, list[Any]] = {}
    for each in edits:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set {each!r:.60}: write NAME=VALUE")
        found[name] = [_loose(part) for part in text.split(",")] if many else [_loose(text)]
    return found


def _loose(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--happened {text!r:.60} is no JSON: {error}") from error


def _import_actions(modules: Sequence[str]) -> None:
    import importlib

    if "" not in sys.path:
        # As `python -m` would: plans name modules of the folder that they are run in.
        sys.path.insert(0, "")
    for each in modules:
        try:
            importlib.import_module(each)
        except ImportError as error:
            raise InvalidInputError(
                f"--actions {each!r:.60} cannot be imported: {error}",
                code=ErrorCode.BAD_PLAN,
                hint="name a module that Python finds from here",
            ) from error


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value, indent=None)
    return text if len(text) <= 200 else text[:200] + "..."
