"""Several processes, one store: no update is lost, and nobody is kept waiting for ever."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from holdfast.testing.rows import contents

from .conftest import Open

WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from holdfast.backends.sqlite import SqliteBackend
    from holdfast.errors import ConflictError
    from holdfast.storage.records import Move
    from holdfast.testing.rows import batch, row

    path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    backend = SqliteBackend.open(path, durability="process", create=True, timeout=60.0)
    print("ready", flush=True)
    sys.stdin.readline()
    lost = 0
    for number in range(count):
        while True:
            with backend.reader() as reader:
                branch = reader.branch("work", "main")
            head = branch.head if branch else None
            made = row(f"{name}-{number}", parents=(head,) if head else (), prev=head)
            try:
                backend.commit(batch(made, moves=(Move(branch="main", expected=head, head=made.id),)))
                break
            except ConflictError:
                lost += 1
    print(lost, flush=True)
    backend.close()
    """)


def test_a_long_read_neither_blocks_writers_nor_sees_them(path: Path, open_store: Open) -> None:
    backend = open_store()
    with backend.reader() as reader:
        ran = subprocess.run(
            [sys.executable, "-c", WRITER, str(path), "a", "20"],
            input="go\n",
            text=True,
            capture_output=True,
            check=True,
        )
        assert ran.stdout == "ready\n0\n"
        assert reader.sessions() == []
    assert len(contents(backend).checkpoints) == 20
