"""`Invocation`: one run of a command. It has the options that every command shares, and opens the store they name.

The same options are accepted before and after the command. An option on the command line wins over its environment
variable, and the later one on the line wins over the earlier. stdout is data, stderr is talk: `say` writes there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal

import click
from click.core import ParameterSource

from holdfast.cli.terminal import (
    ColorChoice,
    TimeChoice,
    escape_controls,
    is_terminal,
    paint,
    show_time,
    use_color,
)
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast import Checkpoint, Keep, Session, Store

DEFAULT_SESSION = "default"
DRY_RUN = click.option("-n", "--dry-run", is_flag=True, help="Show the plan, change nothing")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask")
PLACE = ("store", "session", "branch")
"""The options that say where. A command takes the first one, two or three of them, or none."""

_OPTIONS = frozenset(
    f"HOLDFAST_{name}"
    for name in ("STORE", "SESSION", "CONFIG", "TIME", "COLOR", "PAGER", "DEBUG", "REQUIRE")
)
"""Variables that are read as options are, or by others, without looking at all settings."""
_NAMED = 5
"""Names in a hint: enough to recognise one's own, few enough for a line."""


class Invocation:
    """One run of a command.

    Attributes:
        typed: The shared options that were on the command line.
        origins: Where each one came from that was on the command line or in a variable.
        keep: The fields of the `Keep` for automatic retention.
    """

    places: ClassVar[Mapping[str, int]] = {}
    """How many of --store, --session and --branch each command takes; set by the table of commands."""

    def __init__(self, *, json: bool = False) -> None:
        self.store: str | None = None
        self.session = DEFAULT_SESSION
        self.branch: str | None = None
        self.config: str | None = None
        self.json = json
        self.fields: str | None = None
        self.format: str | None = None
        self.color: ColorChoice = "auto"
        self.no_progress = False
        self.no_pager = False
        self.time: TimeChoice = "relative"
        self.pager = os.environ.get("HOLDFAST_PAGER")
        self.durability: Literal["power", "process"] = "power"
        self.keep: dict[str, Any] = {}
        self.compress = True
        self.typed: set[str] = set()
        self.origins: dict[str, str] = {}

    def complete(self) -> None:
        """Fill in from settings files, and from variables that are no option, what nobody has said yet.

        Raises:
            InvalidInputError: A file or a variable cannot be used (`bad-config`).
            UnsupportedError: A YAML file was named, and nothing is installed that reads it.
        """
        from holdfast.settings.files import config_files

        files = [file for file in config_files(self.store, self.config) if file.counts]
        if not files and not any(
            name.startswith("HOLDFAST_") and name not in _OPTIONS for name in os.environ
        ):
            return
        from holdfast.settings.settings import resolve

        for key, found in resolve({}, files).items():
            group, _, field = key.rpartition(".")
            if group == "keep":
                if found.value is not None:
                    self.keep[field] = found.value
            elif key == "checkpoint.compress":
                self.compress = found.value
            # The other groups are for agents that run.
            elif not group and found.origin != "default" and key not in self.origins:
                setattr(self, key, found.value)

    # How to speak

    def when(self, moment: datetime) -> str:
        """A time in a table, as the person likes it."""
        return show_time(moment, self.time)

    def paints(self, stream: IO[str]) -> bool:
        """Whether text for people is coloured on `stream`."""
        return use_color(self.color, stream)

    def for_people(self) -> bool:
        """Whether a person looks at stdout, so that tables and short forms are right."""
        return not self.json and is_terminal(sys.stdout)

    def say(self, text: str, *, label: str = "", style: str = "dim") -> None:
        """Talk to the person: one line on stderr, never data. In JSON mode there is nobody to talk to."""
        if self.json:
            return
        if label != "plan: ":  # a plan speaks of names that people chose, and of no command
            text = self.pasteable(text)
        on = self.paints(sys.stderr)
        click.echo(paint(label, style, on=on) + text, file=sys.stderr, color=on)

    def pasteable(self, text: str) -> str:
        """`text` with each command in it made for the store, session and branch that were typed."""
        typed: dict[str, str] = {name: getattr(self, name) for name in PLACE if name in self.typed}
        if not typed or "holdfast " not in text:
            return text
        import re
        import shlex

        def filled(found: re.Match[str]) -> str:
            words, rest, secret = [f"holdfast {found[1]}"], found["rest"], 0
            for option in PLACE[: self.places[found[1]]]:
                # Help is the same everywhere, and what is said already stays.
                if option in typed and not {"--help", f"--{option}"} & set(rest.split()):
                    # A password never goes into what is shown: libpq takes it from PGPASSWORD as well.
                    value, hidden = re.subn(r":(?!//)[^/]+(?=@)|(?<=[?&])password=[^&]*&?", "", typed[option])
                    secret += hidden
                    words.append(f"--{option} {shlex.quote(escape_controls(value.rstrip('?&')))}")
            if secret:
                words.insert(0, 'PGPASSWORD="$PGPASSWORD"')
            return " ".join(words) + rest

        names = "|".join(sorted(self.places, key=len, reverse=True))
        return re.sub(rf"\bholdfast ({names})(?![\w-])(?P<rest>(?: +--?[a-z][\w-]*)*)", filled, text)

    # The store and the session

    @contextmanager
    def open(self, *, damaged: bool = False, missing: str = "", timeout: float = 10.0) -> Iterator[Store]:
        """The store that was named; a missing one is an error, so that a typo never makes an empty store.

        Args:
            damaged: Also open a store whose first pages cannot be read.
            missing: The hint where there is none, if the store was named in another way than by --store.
            timeout: Seconds to wait for a server that is gone, or for whoever has locked the store.
        """
        import holdfast

        try:
            with holdfast.open(
                self.store,
                create=False,
                durability=self.durability,
                compress=self.compress,
                damaged=damaged,
                timeout=timeout,
            ) as store:
                try:
                    yield store
                except NotFoundError as error:
                    if error.code is not ErrorCode.SESSION_MISSING or "option" in error.details:
                        raise
                    name = str(error.details.get("session", self.session))
                    raise self.no_session(store, name) from error
        except NotFoundError as error:
            if error.code is ErrorCode.STORE_MISSING:
                there = "there; --store" if self.store is not None else "here; --store or HOLDFAST_STORE"
                error.hint = missing or f"holdfast init makes a store {there} names another one"
                if _is_empty_file(str(error.details.get("path", ""))):
                    error.args = (f"{error}: the file is empty", *error.args[1:])
            raise

    @contextmanager
    def open_or_make(
        self, target: str | None = None, *, first: Callable[[], object] | None = None
    ) -> Iterator[Store]:
        """The store that was named, made where there is none; `first` is called before one is made, and may refuse."""
        import holdfast

        place = self.store if target is None else target
        chosen: dict[str, Any] = {"durability": self.durability, "compress": self.compress}
        try:
            store = holdfast.open(place, create=False, **chosen)
        except NotFoundError as error:
            if error.code is not ErrorCode.STORE_MISSING:
                raise
            if first is not None:
                first()
            empty = " in a file that was empty" if _is_empty_file(str(error.details.get("path", ""))) else ""
            store = holdfast.open(place, **chosen)
            self.say(f"made a new store{empty}: {escape_controls(store.url)}")
        with store:
            yield store

    @contextmanager
    def open_session(self, *, dry_run: bool = False) -> Iterator[tuple[Store, Session]]:
        """The store and the session that were named; with `dry_run` a rehearsal, which writes nothing."""
        with self.open() as store:
            used = store.rehearsal() if dry_run else store
            yield used, self.session_of(used)

    def session_of(self, store: Store, *, agent: str | None = None, project: str | None = None) -> Session:
        """The session that was named, on the branch that was named or the one in use there."""
        branch = store.current_branch(self.session) if self.branch is None else self.branch
        return store.session(self.session, branch=branch, agent=agent, project=project)

    def retention(self) -> Keep | None:
        """What the settings say about automatic retention; a policy that cannot be carried out is refused."""
        from holdfast import Keep

        return Keep(**self.keep) if self.keep else None

    def check_session(self, store: Store, session: str | None = None, option: str = "--session") -> None:
        """Raise where the store does not have the session."""
        name = self.session if session is None else session
        if all(info.id != name for info in store.sessions()):
            raise self.no_session(store, name, option)

    def no_session(self, store: Store, session: str, option: str = "--session") -> NotFoundError:
        """The error for a session that the store does not have, with those that it has."""
        known = [info.id for info in store.sessions()]
        near = close_names(session, known)
        if known:
            listed = ", ".join(known[-_NAMED:]) + (" and more" if len(known) > _NAMED else "")
            otherwise = f"{option} chooses one of: {listed}"
        else:
            otherwise = "the store is empty: holdfast create saves a first checkpoint"
        return NotFoundError(
            f"there is no session {session!r} in {store.url}",
            code=ErrorCode.SESSION_MISSING,
            hint=did_you_mean(near) or otherwise,
            session=session,
            option=option,
            candidates=near,
        )

    # Changes: a plan, a question, the way back

    def say_plan(self, text: str, *, dry_run: bool = False) -> None:
        """One line about what is done; in a dry run the same, and that nothing was."""
        self.say(escape_controls(text), label="plan: ")
        if dry_run:
            self.say("dry run: nothing was changed")

    def say_undo(self, *, session: str | None = None) -> None:
        """Say how to take back what was just done, in `session` where that is another one than the one in use."""
        import shlex

        there = "" if session is None else f" --session {shlex.quote(escape_controls(session))}"
        self.say(f"holdfast undo{there}", label="Undo: ")

    def say_keyed(self, built_on: Checkpoint | None, then: str = "will not see this one") -> None:
        """Warn whoever saves by hand after a program that finds its checkpoints by key, as LangGraph does."""
        if built_on is not None and built_on.key is not None:
            self.say(
                f"the program that saves here finds its checkpoints by key, and {then} "
                "(docs/integrations/langgraph.md says which commands act on a graph)",
                label="note: ",
                style="yellow",
            )

    def confirm(self, danger: str, *, yes: bool) -> None:
        """Go on only if the person says yes; `danger` is a sentence without its full stop.

        Raises:
            InvalidInputError: Nobody said yes (`needs-confirmation`, exit code 20).
        """
        if yes:
            return
        if not self._somebody_there():
            raise _refused(f"{danger}, and nobody is there to be asked", "--yes does it without asking")
        if self._ask(f"{danger}. Go on? [y/N] ").strip().lower() not in ("y", "yes"):
            raise _refused("not confirmed", "nothing was changed; answer y, or give --yes")

    def confirm_by_name(self, danger: str, *, store: str, confirmed: str | None) -> None:
        """Go on only if the person types the name of the store; `--yes` is not enough for what cannot be undone.

        Raises:
            InvalidInputError: The name was not given, or another one (`needs-confirmation`, exit code 20).
        """
        name = store_name(store)
        flag = f"--confirm {name} does it without asking"
        if confirmed is not None and confirmed != name:
            raise _refused(f"--confirm {confirmed!r:.60} is not the name of this store", flag)
        if confirmed is not None:
            return
        if not self._somebody_there():
            raise _refused(f"{danger}, and nobody is there to be asked", flag)
        if self._ask(f"{danger}. Type the name of the store, {name}, to go on: ").strip() != name:
            raise _refused("not confirmed", f"nothing was changed; type {name}, or give --confirm {name}")

    def _somebody_there(self) -> bool:
        # stdin answers and stderr asks; stdout may well go into a file.
        return not self.json and all(
            stream is not None and is_terminal(stream) for stream in (sys.stdin, sys.stderr)
        )

    def _ask(self, question: str) -> str:
        sys.stderr.write(paint(escape_controls(question), "yellow", on=self.paints(sys.stderr)))
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):  # Ctrl-D leaves the cursor behind the question
            sys.stderr.write("\n")
        return answer


def store_name(url: str) -> str:
    """The name by which people know a store: of its file, of the folder that it is for, or of database and schema."""
    if url.startswith("postgresql://"):
        server, _, options = url.partition("?")
        schema = "".join(f".{each[7:]}" for each in options.split("&") if each.startswith("schema="))
        return server.rpartition("/")[2] + schema
    parts = [part for part in url.rstrip("/").replace("\\", "/").split("/") if part]
    # .../scout/.holdfast/store.db is the store of scout.
    for usual in ("store.db", ".holdfast"):
        if len(parts) > 2 and parts[-1] == usual:
            parts.pop()
    return parts[-1].rstrip(":") if parts else url


def _is_empty_file(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.stat(path).st_size == 0  # noqa: PTH113, PTH116 - no pathlib at start
    except (OSError, ValueError):  # a path that cannot be looked at, or is none
        return False


def _refused(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.NEEDS_CONFIRMATION, hint=hint)


def peek(argv: Sequence[str]) -> Invocation:
    """How to speak if the arguments turn out to be wrong: what can be known before they are parsed."""
    words = list(argv[: argv.index("--")] if "--" in argv else argv)
    cmd = Invocation(json="--json" in words)
    for here, after in zip(words, [*words[1:], ""], strict=False):
        choice = after if here == "--color" else here.removeprefix("--color=")
        if here.startswith("--color") and choice in ("always", "never"):
            cmd.color = "always" if choice == "always" else "never"
    return cmd


def shared_options(place: int, completers: Mapping[str, Callable[..., list[Any]]]) -> list[click.Option]:
    """New instances of the options that every command takes; only the first `place` of those that say where show.

    `completers` know what a shell can offer for them.
    """
    where = [
        _option(
            "--store", metavar="URL", envvar="HOLDFAST_STORE", help="The store: a folder, a file or a URL"
        ),
        _option(
            "--session",
            metavar="ID",
            envvar="HOLDFAST_SESSION",
            shell_complete=completers["session"],
            help="The session  [default: default]",
        ),
        _option(
            "--branch",
            metavar="NAME",
            shell_complete=completers["branch"],
            help="The branch  [default: the one in use]",
        ),
    ]
    for option in where[place:]:
        # Accepted all the same: the error for it says more than that there is no such option.
        option.hidden = True
    return [
        *where,
        _option(
            "--config",
            metavar="FILE",
            envvar="HOLDFAST_CONFIG",
            help="A settings file to read before all others",
        ),
        _option("--json", is_flag=True, help="Write one JSON document to stdout"),
        _option("--fields", metavar="A,B", help="Only these fields, in this order"),
        _option("--format", metavar="TEXT", help="Each row as this text: '{id:.8} {message}'"),
        _option("--no-progress", is_flag=True, help="No progress on stderr"),
        _option("--no-pager", is_flag=True, help="No pager for long output"),
        _option(
            "--time",
            type=click.Choice(["relative", "iso", "local"]),
            envvar="HOLDFAST_TIME",
            help="Times in tables  [default: relative]",
        ),
        _option(
            "--color",
            envvar="HOLDFAST_COLOR",
            type=click.Choice(["auto", "always", "never"]),
            help="Colour  [default: auto]",
        ),
    ]


def _option(name: str, **attributes: Any) -> click.Option:
    default = False if attributes.get("is_flag") else None
    return click.Option(
        [name], expose_value=False, callback=_remember, show_envvar=True, default=default, **attributes
    )


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    cmd = ctx.ensure_object(Invocation)
    name = param.name or ""
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.COMMANDLINE:
        setattr(cmd, name, value)
        cmd.typed.add(name)
        cmd.origins[name] = param.opts[0]
    elif source is ParameterSource.ENVIRONMENT and name not in cmd.typed:
        # Read once for the group and again for the command: it must not undo what was typed in between.
        setattr(cmd, name, value)
        cmd.origins[name] = str(param.envvar)
