"""Commands that reach other processes: serve, mcp, live."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import command
from holdfast.cli.completion import RefArgument
from holdfast.cli.invocation import YES, Invocation
from holdfast.cli.output import Column, checkpoints, data, json_text, rows
from holdfast.errors import ErrorCode, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from holdfast import Store
    from holdfast.operations import Service

PORT = 8137
_LIVE = (
    Column("session", width=40, style="yellow"),
    Column("kind"),
    Column("pid", kind="count"),
    Column(
        "since", lambda row: datetime.fromtimestamp(row.since, UTC), kind="time", header="AWAKE", style="dim"
    ),
)


def _needs(extra: str, error: ImportError) -> UnsupportedError:
    return UnsupportedError(
        f"a library of the extra {extra!r} is not installed: {error.name}",
        code=ErrorCode.NOT_SUPPORTED,
        hint=f"pip install 'holdfast[{extra}]'",
    )


@command(
    "serve",
    """Serve the store to programs of this machine: JSON-RPC, REST, live events, metrics.

    Every request needs a token, which is in a file that you alone can read; --show-token prints one. It listens on the
    loopback interface; another address needs a reverse proxy with TLS before it, named with --behind-proxy. It ends
    with Ctrl-C or SIGTERM.

    \b
    Examples:
      holdfast serve --show-token read
      holdfast serve --port 0 --socket gateway.sock --check
    """,
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", show_default=True, help="Where to listen")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free one"
)
@click.option("--socket", "unix", type=click.Path(), metavar="PATH", help="Also listen on this Unix socket")
@click.option("--behind-proxy", "proxy", metavar="NAME", help="The name by which a reverse proxy is reached")
@click.option("--token-file", type=click.Path(), metavar="PATH", help="Where the tokens are")
@click.option(
    "--show-token",
    type=click.Choice(["read", "write", "admin"]),
    metavar="SCOPE",
    help="Print a token: read, write or admin",
)
@click.option(
    "--audit", type=click.Path(), metavar="PATH", help="Write a line for each write into this file  [stderr]"
)
@click.option(
    "--max-body", type=click.IntRange(min=1024), default=4 << 20, metavar="BYTES", help="Of a request"
)
@click.option(
    "--connections", type=click.IntRange(min=1), default=64, metavar="N", help="Of one peer, at once"
)
@click.option("--check", is_flag=True, help="Only say where it would listen")
def serve(cmd: Invocation, **given: Any) -> None:
    """Serve until a signal comes."""
    try:
        from holdfast.gateway import Limits, Tokens, app, security
    except ImportError as error:
        raise _needs("gateway", error) from error
    from holdfast.operations import Service

    with cmd.open_or_make() as store:
        chosen = given["token_file"]
        path = Path(chosen) if chosen else security.token_file(store.url)
        tokens = Tokens.load(path)
        if given["show_token"]:
            data(tokens[given["show_token"]])
            return
        limits = Limits(body_bytes=given["max_body"], connections=given["connections"])
        bound, names = app.listen(given["host"], given["port"], given["proxy"])
        host, port = bound.getsockname()[:2]
        sockets = [bound]
        if given["unix"]:
            sockets.append(app.listen_unix(Path(given["unix"])))
            names |= {"localhost"}
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        if cmd.json:
            data(json_text({"url": url, "socket": given["unix"], "token_file": str(path)}, indent=None))
        else:
            data(url)
            cmd.say(f"the tokens are in {path}; holdfast serve --show-token read prints one")
        sys.stdout.flush()
        service = Service(store, session=cmd.session)
        try:
            if not given["check"]:
                _audit_to(given["audit"])
                app.serve(app.create_app(service, tokens, hosts=names, limits=limits), sockets, limits)
        finally:
            service.close()
            for each in sockets:
                each.close()
            if given["unix"]:
                Path(given["unix"]).unlink(missing_ok=True)


def _audit_to(path: str | None) -> None:
    import logging
    import os

    # Lines are appended by a stream of our own: the file is made for its owner alone.
    stream = sys.stderr
    if path is not None:
        stream = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8"
        )
    handler = logging.StreamHandler(stream)
    audit = logging.getLogger("holdfast.audit")
    audit.addHandler(handler)
    audit.setLevel(logging.INFO)
    audit.propagate = False


@command(
    "mcp",
    """Serve the store to a coding agent over MCP: on stdin and stdout, or over HTTP with --http.

    \b
    Examples:
      holdfast mcp --tools
    """,
)
@click.option("--http", is_flag=True, help="Serve streamable HTTP at /mcp, with the tokens of holdfast serve")
@click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", show_default=True, help="With --http: where to listen"
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT + 1, show_default=True, help="0 takes a free one"
)
@click.option("--token-file", type=click.Path(), metavar="PATH", help="With --http: where the tokens are")
@click.option(
    "--scope",
    type=click.Choice(["read", "write", "admin"]),
    default="write",
    show_default=True,
    help="On stdin: what the agent may do",
)
@click.option("--tools", is_flag=True, help="Only list the tools")
def mcp(cmd: Invocation, **given: Any) -> None:
    """Serve until the other side leaves."""
    try:
        from holdfast.mcp import create_http_app, serve_stdio
        from holdfast.mcp.tools import TOOLS
    except ImportError as error:
        raise _needs("mcp", error) from error
    if given["tools"]:
        rows(cmd, TOOLS, (Column("name", width=30, style="yellow"), Column("summary", width=10_000)))
        return
    from holdfast.operations import Service

    with cmd.open_or_make() as store:
        service = Service(store, session=cmd.session)
        try:
            if not given["http"]:
                serve_stdio(service, given["scope"])
                return
            _mcp_http(cmd, store, service, create_http_app, given)
        finally:
            service.close()


def _mcp_http(cmd: Invocation, store: Store, service: Service, make: Any, given: dict[str, Any]) -> None:
    try:
        from holdfast.gateway import Guard, Limits, Tokens, app, security
    except ImportError as error:
        raise _needs("gateway", error) from error
    chosen = given["token_file"]
    path = Path(chosen) if chosen else security.token_file(store.url)
    tokens = Tokens.load(path)
    bound, names = app.listen(given["host"], given["port"], None)
    data(f"http://{given['host']}:{bound.getsockname()[1]}/mcp")
    cmd.say(f"the tokens are in {path}")
    sys.stdout.flush()
    _audit_to(None)
    service.observers.append(security.write_audit)
    app.serve(Guard(make(service, names), tokens, names, Limits()), [bound])


# Live agents


@command(
    "live list",
    """List the agents that are awake in some process of this machine, and save in this store.

    \b
    Examples:
      holdfast live list
    """,
)
def live_list(cmd: Invocation) -> None:
    """Print them."""
    from holdfast.agents import LiveList, live_agents

    with cmd.open() as store:
        found = live_agents(store)
        rows(cmd, found, _LIVE, lambda: LiveList(store.url, tuple(found)))
    if not found:
        cmd.say("no agent is awake: holdfast heartbeat runs one")


@command(
    "live create",
    """Have the live agent of the session save itself now.

    \b
    Examples:
      holdfast live create 'before the risky part' --session scout
    """,
)
@click.argument("message", default="")
def live_create(cmd: Invocation, *, message: str) -> None:
    """Print the row of its checkpoint."""
    from holdfast.reports import CheckpointList

    with cmd.open() as store:
        agent = _live(cmd, store)
        made = agent.create(message)
        saved = store.session(agent.session).checkpoint(made["id"])
        checkpoints(cmd, [saved], lambda: CheckpointList(store.url, saved.session, (saved,)))


@command(
    "live restore",
    """Have the live agent of the session take up the state of REF, between two of its steps. It asks first.

    \b
    Examples:
      holdfast live restore @~1 --session scout --yes
    """,
)
@click.argument("ref", type=RefArgument())
@YES
def live_restore(cmd: Invocation, *, ref: str, yes: bool) -> int | None:
    """Ask, have it restored, and print the row of what is newest then; 1 if a part failed."""
    from holdfast.reports import CheckpointList

    with cmd.open() as store:
        agent = _live(cmd, store)
        session = store.session(agent.session, branch=store.current_branch(agent.session))
        source = session.checkpoint(ref)
        cmd.confirm(f"the live agent of session {agent.session} will go back to #{source.seq}", yes=yes)
        failed = agent.restore(source.id).get("failed", {})
        checkpoints(cmd, [source], lambda: CheckpointList(store.url, source.session, (source,)))
    for name, why in failed.items():
        cmd.say(f"{name}: {why}", label="not restored: ", style="red")
    cmd.say(f"the agent of session {agent.session} goes on from #{source.seq}")
    return 1 if failed else None


def _live(cmd: Invocation, store: Store) -> Any:
    """The live agent that is meant: of the session that was named, or the only one."""
    from holdfast.agents import live_agents

    found = live_agents(store)
    named = [each for each in found if each.session == cmd.session]
    if not named and "session" not in cmd.typed and len(found) == 1:
        named = found
    if not named:
        raise NotFoundError(
            f"no live agent has the session {cmd.session!r:.100}",
            code=ErrorCode.AGENT_MISSING,
            hint="holdfast live list names those that are awake; --session chooses one",
        )
    return named[0]
