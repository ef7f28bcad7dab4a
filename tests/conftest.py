"""What every test runs under: Hypothesis profiles, a clean environment, and services that may be missing.

    def test_it_survives(require):
        require("strace")

skips where strace cannot run; with HOLDFAST_REQUIRE=all (as `.ci/run` sets it) it fails instead, so that
nothing goes untested in silence. `postgres`, `postgres_url`, `postgres_place` and `postgres_store` are of a real server
(tests/services/postgres.py).
"""

from __future__ import annotations

import compileall
import gc
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.services.postgres import Server

# No deadlines and no "too slow": a busy machine is no bug. The count of examples is what differs.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _COMMON, max_examples=50)
settings.register_profile("ci", _COMMON, max_examples=120)
settings.register_profile("nightly", _COMMON, max_examples=1000, stateful_step_count=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

# Read before the environment is cleaned.
_REQUIRED = os.environ.get("HOLDFAST_REQUIRE", "").split(",")

_MEMORY = Path("/dev/shm")

# Of a test process, at its largest. Containers often have 64 MB of memory for files: too little for a store per test.
_ROOM = 2 * 2**30

_SCHEMAS = count(1)

_SCHEMAS_OF_A_DATABASE = 100

_STORES_OF_A_DATABASE = 50

# Where the longest tests are. They begin first, so that nobody waits for one at the end.
_LONG = ("reliability", "property")

# Being installed is not enough for these: containers often forbid them.
_PROBES = {
    "strace": ["strace", "-f", "-o", os.devnull, "true"],
    "unshare": ["unshare", "--map-root-user", "--mount", "true"],
}


@cache
def _why_missing(service: str) -> str | None:
    """Why a service cannot be used here, or None. A service is a command, a Python package or "postgres"."""
    if service == "postgres":
        return _why_no_postgres()
    if importlib.util.find_spec(service) is not None:
        return None
    if shutil.which(service) is None:
        return f"{service} is not installed"
    probe = _PROBES.get(service)
    if probe is None:
        return None
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{service} does not work here: {done.stderr.strip()}"


def _why_no_postgres() -> str | None:
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    from tests.services.postgres import installations

    return None if installations() else "PostgreSQL's programs are not installed"


@pytest.fixture(scope="session")
def require() -> Callable[[str], None]:
    """Call it with the name of a command, package or service that the test cannot do without."""

    def check(service: str) -> None:
        reason = _why_missing(service)
        if reason is None:
            return
        if "all" in _REQUIRED or service in _REQUIRED:
            pytest.fail(f"{reason}, and HOLDFAST_REQUIRE asks for it")
        pytest.skip(reason)

    return check


@pytest.fixture(scope="session")
def postgres(require: Callable[[str], None]) -> Iterator[Server]:
    """One server for all tests of this process, fast rather than durable. To kill one, start a `Server` of your own."""
    require("postgres")
    from tests.services.postgres import Server

    with Server(fsync=False) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """A database of that server that nobody else has used, removed after the test."""
    url = postgres.fresh_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def _shared_database(postgres: Server) -> Callable[[], str]:
    """The database of the test that asks; the next one's may be another."""
    current = ""
    asked = 0

    def database() -> str:
        nonlocal current, asked
        # To remove a schema costs as much as to make one; to remove a database, as much whatever is in it.
        if asked % _SCHEMAS_OF_A_DATABASE == 0:
            if current:
                postgres.drop_database(current)
            current = postgres.fresh_database()
        asked += 1
        return current

    return database


@pytest.fixture
def postgres_place(postgres: Server, _shared_database: Callable[[], str]) -> str:
    """The URL of a schema that nobody has used: half the price of a database of its own."""
    # By the socket, where the superuser is not asked for its password: logging in is most of what a command costs.
    database = postgres.url(_shared_database().rpartition("/")[2], by_socket=True)
    return f"{database}&schema=t_{next(_SCHEMAS)}"


@pytest.fixture(scope="session")
def _database_of_stores(postgres: Server) -> Callable[[], tuple[str, str]]:
    """A database, and a schema of it with a store in it; the database of the next one may be another."""
    from tests.services.postgres_stores import make_stores

    template = current = ""
    left: list[str] = []

    def taken() -> tuple[str, str]:
        nonlocal template, current
        if not template:
            template = postgres.fresh_database()
            make_stores(template, _STORES_OF_A_DATABASE)
        if not left:
            if current:
                postgres.drop_database(current)
            current = postgres.fresh_database(template=template)
            left.extend(f"s_{number}" for number in range(_STORES_OF_A_DATABASE))
        return current, left.pop()

    return taken


@pytest.fixture
def postgres_store(postgres: Server, _database_of_stores: Callable[[], tuple[str, str]]) -> str:
    """The URL of an empty store that nobody has used, copied with many others: a tenth of the price of making it."""
    database, schema = _database_of_stores()
    return f"{postgres.url(database.rpartition('/')[2], by_socket=True)}&schema={schema}"


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such a place: a kill leaves the same behind, and syncs cost nothing there."""
    if not _has_room_in_memory():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-", dir=_MEMORY) as made:
        yield Path(made)


def _has_room_in_memory() -> bool:
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ROOM:
        return False
    # Some tests put programs into their folder.
    return not os.statvfs(_MEMORY).f_flag & getattr(os, "ST_NOEXEC", 0)


def pytest_configure() -> None:
    """Put `tmp_path` into memory: nearly every test makes a store, and few are about disks (tests/reliability)."""
    if _has_room_in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
    # A shell that runs the tests in the background has them ignore Ctrl-C, and every program that they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    # Hundreds of tests start Python anew. Where it may not write bytecode, each would compile holdfast once more.
    package = importlib.util.find_spec("holdfast")
    for folder in (package and package.submodule_search_locations) or []:
        compileall.compile_dir(folder, quiet=2)


@pytest.fixture(scope="session", autouse=True)
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # Once for the session: a test that needs a variable sets it with monkeypatch, which puts it back.
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            # PGHOST and its like. The one that stays is for tests that start a server of their own.
            if name.startswith(("HOLDFAST_", "PG")) and name != "HOLDFAST_POSTGRES_BIN":
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _loads_read_the_store() -> Iterator[None]:
    # What an open store has at hand of earlier loads would hide from a test that gc took too much, or that a page is
    # damaged. Those who want it as it is for people ask for `chunks_at_hand`.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.store.composition._AT_HAND_BYTES", 0)
        yield


@pytest.fixture
def chunks_at_hand(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the stores of a test keep so many bytes of the chunks that they have read at hand."""
    return lambda most: monkeypatch.setattr("holdfast.store.composition._AT_HAND_BYTES", most)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first."""
    tests = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(tests).parts[0] not in _LONG)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of the garbage collector's sight: it lasts, and is most of what there is."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_report_header() -> str:
    """One line that says what the tests ran on."""
    libraries = map(_library, ("ormsgpack", "zstandard", "lz4", "blake3"))
    return ", ".join([f"holdfast on Python {platform.python_version()}", _sqlite(), *libraries])


def _sqlite() -> str:
    try:
        import apsw
    except ImportError:
        return "no apsw"
    return f"apsw {apsw.apsw_version()} with SQLite {apsw.sqlite_lib_version()}"


def _library(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"
