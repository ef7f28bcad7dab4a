"""A restore that kills itself before its Nth change of a file: `python restoring.py FOLDER N`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import holdfast
from holdfast.agents import Notebook, Workspace
from holdfast.workspace import restore

folder, steps = Path(sys.argv[1]), iter(range(int(sys.argv[2]) - 1, -1, -1))


def dying(function: Any) -> Any:
    def wrapped(*words: Any, **options: Any) -> Any:
        if next(steps, None) == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*words, **options)

    return wrapped


store = holdfast.open(str(folder / ".holdfast"))
notebook = Notebook(store.session("bug"), workspace=Workspace(folder))
Path.replace = dying(Path.replace)  # type: ignore[method-assign]
Path.unlink = dying(Path.unlink)  # type: ignore[method-assign]
Path.symlink_to = dying(Path.symlink_to)  # type: ignore[method-assign]
os.fsync = dying(os.fsync)
restore.apply_plan = dying(restore.apply_plan)
notebook.restoration.mark = dying(notebook.restoration.mark)  # type: ignore[method-assign]
notebook.session.restore = dying(notebook.session.restore)
notebook.restore("tag:wanted")
