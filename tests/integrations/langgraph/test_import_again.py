"""Imports that are interrupted, repeated, or meet something else: what is there is never lost or mixed up."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from tests.integrations.langgraph.import_sources import GRAPHS, by_id, config, fill

import holdfast
from holdfast.errors import ErrorCode
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.import_saver import import_langgraph

THREADS = ("asked", "chat", "forked", "nested")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with holdfast.open(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.sqlite"


def same(saver: HoldfastSaver, source: Path, threads: tuple[str, ...]) -> None:
    """All that the source's own saver gives of these threads is what ours gives."""
    with SqliteSaver.from_conn_string(str(source)) as theirs:
        for thread in threads:
            assert by_id(list(saver.list(config(thread)))) == by_id(list(theirs.list(config(thread))))


def test_an_import_that_is_killed_anywhere_is_finished_by_the_next(source: Path, tmp_path: Path) -> None:
    tuples = fill("sqlite", source, THREADS)
    total = sum(map(len, tuples.values()))
    program = """
import os, signal, sys
import holdfast
from holdfast.integrations.langgraph.import_saver import import_langgraph

source, target, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
with holdfast.open(target, durability="process") as store:
    commit, commits = store._backend.commit, 0

    def counting(batch):
        global commits
        commits += 1
        if commits > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return commit(batch)

    store._backend.commit = counting
    import_langgraph(source, store)
"""
    states = set()
    for after in (0, 1, 2, 7, 20, 45):
        target = tmp_path / f"store-{after}.db"
        done = subprocess.run([sys.executable, "-c", program, source, target, str(after)], check=False)
        assert done.returncode == -signal.SIGKILL
        with holdfast.open(target) as store:
            count = store.stats().checkpoints
            assert count == after
            assert store.verify().ok

            report = import_langgraph(source, store)

            states.add(tuple(each.status for each in report.threads))
            assert 0 < report.checkpoints <= total
            same(HoldfastSaver(store), source, THREADS)
            whole = store.stats().checkpoints
            assert import_langgraph(source, store).checkpoints == 0
            assert store.stats().checkpoints == whole
            # The same branches as without the interruption.
            assert {each.name for each in store.session("forked").branches()} == {
                "main", "main-1", "main-2", "main-3", "writes",
            }  # fmt: skip
    assert len(states) > 3


def test_a_source_that_went_on_is_brought_up_to_date(source: Path, store: holdfast.Store) -> None:
    fill("sqlite", source, ("asked", "chat"))
    import_langgraph(source, store)
    with SqliteSaver.from_conn_string(str(source)) as theirs:
        GRAPHS["asked"](theirs).invoke(Command(resume="yes"), config("asked"))
        GRAPHS["chat"](theirs).invoke({"messages": [HumanMessage("more")]}, config("chat"))

    report = import_langgraph(source, store)

    # The answer of a person is a write on a checkpoint that was there already.
    assert [(each.id, each.status, each.checkpoints) for each in report.threads] == [
        ("asked", "updated", 2),
        ("chat", "updated", 3),
    ]
    same(HoldfastSaver(store), source, ("asked", "chat"))
    assert {each.name for each in store.session("chat").branches()} == {"main", "writes"}


def both_went_on(source: Path, store: holdfast.Store) -> None:
    for saver in (HoldfastSaver(store), SqliteSaver(sqlite3.connect(source, check_same_thread=False))):
        GRAPHS["chat"](saver).invoke({"messages": [HumanMessage("here")]}, config("chat"))
        if isinstance(saver, SqliteSaver):
            saver.conn.close()


def another_session(_source: Path, store: holdfast.Store) -> None:
    store.forget("chat")
    store.session("chat").save({"mine": True})


@pytest.mark.parametrize("change", [both_went_on, another_session])
def test_a_thread_that_the_store_has_otherwise_is_an_error_and_nothing_of_it_is_written(
    source: Path, store: holdfast.Store, change: Any
) -> None:
    fill("sqlite", source, ("chat", "spread"))
    import_langgraph(source, store, threads=["chat"])
    change(source, store)
    before = [(row.id, row.key) for row in store.find(session="chat")]

    for dry_run in (True, False):
        with pytest.raises(
            holdfast.ConflictError, match=r"session 'chat' of .* is not this thread"
        ) as raised:
            import_langgraph(source, store, dry_run=dry_run)
        assert raised.value.code is ErrorCode.HISTORY_DIFFERS
        assert raised.value.details["session"] == "chat"

    assert [(row.id, row.key) for row in store.find(session="chat")] == before
    # The others can be imported all the same.
    assert import_langgraph(source, store, threads=["spread"]).checkpoints == 4
