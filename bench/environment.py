"""What the figures of a run depend on beside the code: versions, the machine, its disk."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.timing import sync_cost


def described(*, quick: bool, seed: int, folder: Path, packages: Iterable[str]) -> dict[str, Any]:
    """For the head of a report; what one fsync costs is measured in `folder`."""
    versions = {"Python": platform.python_version(), "sqlite3": sqlite3.sqlite_version}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "quick": quick,
        "seed": seed,
        "versions": versions,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "sync": sync_cost(folder),
    }
