"""Storage of agent states: what a store adds, what files refuse, and what a crash leaves."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

import holdfast
from holdfast.agents import AgentState, FilesystemStorage, StateManager, StoreStorage


def test_the_usual_storage_is_the_store_of_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)

    async def live():
        async with StateManager() as manager:
            state = AgentState(agent_id="agent1", step_number=7, metadata={"model": "m1"})
            return await manager.save_checkpoint(state)

    name = asyncio.run(live())
    with holdfast.open(create=False) as store:
        [found] = store.find(agent="agent1", step=7, metadata={"model": "m1", "agent_id": "agent1"})
        assert (found.key, found.session) == (name, "agent1")
        assert AgentState.load(store.session("agent1"), f"key:{name}").step_number == 7


def test_a_fork_leaves_the_main_line_where_it_was():
    async def live(manager):
        state = AgentState(agent_id="a")
        origin = await manager.save_checkpoint(state)
        fork = await manager.fork_from_checkpoint(origin)
        fork.step_number = 5
        await manager.save_checkpoint(fork)
        fork.step_number = 6
        await manager.save_checkpoint(fork)
        state.step_number = 1
        await manager.save_checkpoint(state)

    with holdfast.open("memory:") as store:
        asyncio.run(live(StateManager(store)))
        lines = {each.name: each.head.step for each in store.session("a").branches()}
        assert lines.pop("main") == 1
        assert list(lines.values()) == [6]


def test_states_that_a_session_saved_itself_are_found_too():
    with holdfast.open("memory:") as store:
        state = AgentState(agent_id="a", step_number=3)
        saved = state.save(store.session("elsewhere", agent="a"))
        manager = StateManager(store)
        [listed] = asyncio.run(manager.list_checkpoints("a"))
        loaded = asyncio.run(manager.load_checkpoint(listed.checkpoint_id))
        assert (listed.checkpoint_id, loaded.step_number) == (saved.id, 3)


@pytest.mark.parametrize("kind", ["files", "store"])
def test_what_is_not_there_is_an_error_with_a_code(tmp_path, kind):
    storage = FilesystemStorage(tmp_path) if kind == "files" else StoreStorage("memory:")
    manager = StateManager(storage)
    for ask in (manager.load_checkpoint, manager.delete_checkpoint, manager.fork_from_checkpoint):
        with pytest.raises(holdfast.NotFoundError) as refused:
            asyncio.run(ask("ckpt_none"))
        assert refused.value.code == "checkpoint-missing"
    assert asyncio.run(manager.list_checkpoints("nobody")) == []
    assert not asyncio.run(storage.exists("ckpt_none"))
    manager.close()


def test_a_state_that_files_cannot_hold_writes_nothing_and_keeps_its_id(tmp_path):
    manager = StateManager(FilesystemStorage(tmp_path))
    state = AgentState(agent_id="a", memory_contents={"seen": [{"x": {1, 2}}]})
    with pytest.raises(holdfast.InvalidInputError) as refused:
        asyncio.run(manager.save_checkpoint(state))
    assert refused.value.details["path"] == "state['memory_contents']['seen'][0]['x']"
    assert list(tmp_path.iterdir()) == []
    assert (state.checkpoint_id, state.timestamp) == (None, None)


@pytest.mark.parametrize("name", ["../up", ".hidden", "a/b", "", "x" * 300])
def test_an_id_that_is_no_file_name_is_refused(tmp_path, name):
    storage = FilesystemStorage(tmp_path / "in")
    for work in (storage.load, storage.exists, storage.delete):
        with pytest.raises(holdfast.InvalidInputError):
            asyncio.run(work(name))


@pytest.mark.requirement("K13")
def test_a_damaged_file_costs_itself_alone(tmp_path):
    storage = FilesystemStorage(tmp_path)
    manager = StateManager(storage)
    state = AgentState(agent_id="a")
    good = asyncio.run(manager.save_checkpoint(state))
    (tmp_path / "ckpt_torn.jsonl").write_text('{"agent_id": "a", "step_nu')
    with pytest.warns(holdfast.HoldfastWarning, match="ckpt_torn"):
        found = asyncio.run(manager.list_checkpoints("a"))
    assert [each.checkpoint_id for each in found] == [good]
    with pytest.raises(holdfast.IntegrityError):
        asyncio.run(manager.load_checkpoint("ckpt_torn"))


KILLED = """
import asyncio, os, sys
from holdfast.agents import AgentState, FilesystemStorage, StateManager

at, folder = sys.argv[1:]
real = getattr(os, at.removesuffix("-after"))

def deadly(*args, **named):
    done = real(*args, **named) if at.endswith("-after") else None
    os.kill(os.getpid(), 9)

async def main():
    manager = StateManager(FilesystemStorage(folder))
    state = AgentState(agent_id="a", step_number=1)
    await manager.save_checkpoint(state)
    state.step_number = 2
    setattr(os, at.removesuffix("-after"), deadly)
    await manager.save_checkpoint(state)

asyncio.run(main())
"""


@pytest.mark.requirement("K11")
@pytest.mark.parametrize("moment", ["fsync", "fsync-after", "replace", "replace-after"])
def test_kill_9_in_a_write_leaves_whole_checkpoints_alone(tmp_path, moment):
    done = subprocess.run([sys.executable, "-c", KILLED, moment, str(tmp_path)], check=False)
    assert done.returncode == -9
    for left in tmp_path.glob(".*.tmp"):
        os.utime(left, (0, 0))  # ten minutes later
    manager = StateManager(FilesystemStorage(tmp_path))
    found = asyncio.run(manager.list_checkpoints("a"))
    assert [each.step_number for each in found] in ([1], [2, 1])
    assert all(asyncio.run(manager.load_checkpoint(each.checkpoint_id)) for each in found)
    assert list(tmp_path.glob(".*")) == []


def test_numbers_below_nothing_are_refused(tmp_path):
    with pytest.raises(holdfast.InvalidInputError):
        StateManager(FilesystemStorage(tmp_path), checkpoint_frequency=-1)
    with pytest.raises(holdfast.InvalidInputError):
        asyncio.run(StateManager(FilesystemStorage(tmp_path)).cleanup_old_checkpoints("a", -1))
