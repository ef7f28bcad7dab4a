"""What every test runs under: Hypothesis profiles, a clean environment, and services that may be missing.

    def test_it_survives(require):
        require("strace")

skips where strace cannot run; with HOLDFAST_REQUIRE=all (as `.ci/run` sets it) it fails instead, so that
nothing goes untested in silence.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import pytest
from hypothesis import HealthCheck, settings

# No deadlines and no "too slow": a busy machine is no bug. The count of examples is what differs.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _COMMON, max_examples=50)
settings.register_profile("ci", _COMMON, max_examples=200)
settings.register_profile("nightly", _COMMON, max_examples=1000, stateful_step_count=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

# Read before the environment is cleaned.
_REQUIRED = os.environ.get("HOLDFAST_REQUIRE", "").split(",")

# Being installed is not enough for these: containers often forbid them.
_PROBES = {
    "strace": ["strace", "-f", "-o", os.devnull, "true"],
    "unshare": ["unshare", "--map-root-user", "--mount", "true"],
}


@cache
def _why_missing(service: str) -> str | None:
    """Why a service cannot be used here, or None. A service is a command or a Python package."""
    if importlib.util.find_spec(service) is not None:
        return None
    if shutil.which(service) is None:
        return f"{service} is not installed"
    probe = _PROBES.get(service)
    if probe is None:
        return None
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{service} does not work here: {done.stderr.strip()}"


@pytest.fixture(scope="session")
def require() -> Callable[[str], None]:
    """Call it with the name of a command or a Python package that the test cannot do without."""

    def check(service: str) -> None:
        reason = _why_missing(service)
        if reason is None:
            return
        if "all" in _REQUIRED or service in _REQUIRED:
            pytest.fail(f"{reason}, and HOLDFAST_REQUIRE asks for it")
        pytest.skip(reason)

    return check


@pytest.fixture(scope="session", autouse=True)
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # Once for the session: a test that needs a variable sets it with monkeypatch, which puts it back.
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("HOLDFAST_"):
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        yield


def pytest_report_header() -> str:
    """One line that says what the tests ran on."""
    libraries = map(_library, ("ormsgpack", "zstandard", "blake3"))
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
