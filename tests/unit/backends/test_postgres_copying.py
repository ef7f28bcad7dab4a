"""A copy of a session on a server, beside somebody who removes what is copied."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

import holdfast  # noqa: E402
from holdfast.errors import HoldfastError  # noqa: E402


def wait_for_a_lock(connection: Any, copying: threading.Thread) -> None:
    """Until somebody waits for a lock in this database; a copy that ends without having waited held nothing."""
    until = time.monotonic() + 30
    while True:
        ((waiting,),) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchall()
        if waiting:
            return
        assert copying.is_alive(), "the copy did not wait for the removal"
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_copy_waits_for_a_removal_that_is_under_way_and_then_finds_nothing(postgres_url: str) -> None:
    with holdfast.open(postgres_url) as store:
        for n in range(3):
            store.session("source").save({"n": n}, key=str(n))
        outcome: list[object] = []

        def copy() -> None:
            try:
                outcome.append(store.copy_session("source", "target"))
            except HoldfastError as error:
                outcome.append(error)

        with psycopg.connect(postgres_url, options="-c search_path=holdfast") as remover:
            # What a removal does: the lock on the session first, then its rows.
            remover.execute("SELECT number FROM sessions WHERE id = 'source' FOR UPDATE")
            remover.execute(
                "DELETE FROM checkpoints WHERE session = (SELECT number FROM sessions WHERE id = 'source')"
            )
            copying = threading.Thread(target=copy)
            copying.start()
            with psycopg.connect(postgres_url, autocommit=True) as watcher:
                wait_for_a_lock(watcher, copying)
        # The block has ended, and the removal is committed.
        copying.join()

        assert isinstance(outcome[0], HoldfastError)
        assert store.find(session="target") == []
