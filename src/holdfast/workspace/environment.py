"""Environment: the variables that decide how a program behaves, by an allow-list; never a secret.

A variable is kept if its name is on the list. One whose name or value looks like a secret is left out even then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

from holdfast.workspace.secrets import find_secrets, is_secret_name

__all__ = ["ALLOWED", "capture_environment"]

ALLOWED: Final = (
    "CARGO_TARGET_DIR", "CC", "CFLAGS", "CI", "CMAKE_*", "CONDA_DEFAULT_ENV", "CUDA_*", "CXX", "CXXFLAGS", "DEBUG",
    "DJANGO_SETTINGS_MODULE", "FLASK_*", "GOARCH", "GOFLAGS", "GOOS", "GOPATH", "HIP_*", "HSA_*", "JAVA_HOME", "LANG",
    "LC_*", "LDFLAGS", "LD_LIBRARY_PATH", "LOG_LEVEL", "MAKEFLAGS", "MKL_*", "NODE_ENV", "NODE_OPTIONS", "NO_COLOR",
    "OMP_*", "OPENBLAS_*", "PATH", "PYTEST_ADDOPTS", "PYTHON*", "ROCM_*", "ROCR_*", "RUSTFLAGS", "RUST_*", "SHELL",
    "TERM", "TEST_*", "TZ", "VIRTUAL_ENV", "XLA_*",
)  # fmt: skip
"""Names that are kept; `*` stands for any ending."""


def capture_environment(
    variables: Mapping[str, str] | None = None, *, allow: Iterable[str] = ()
) -> dict[str, str]:
    """Return the variables worth keeping, by name.

    Args:
        variables: Where to look; the environment of this process by default.
        allow: Names to keep beside those of `ALLOWED`.
    """
    names = (*ALLOWED, *allow)
    source = os.environ if variables is None else variables
    return {
        name: value
        for name, value in sorted(source.items())
        if any(fnmatchcase(name, each) for each in names)
        and not is_secret_name(name)
        and next(find_secrets(f"{name}={value}"), None) is None
    }
