"""The guide for autonomous agents: its code runs with other imports and nothing else changed.

Each test is a block of the guide, or a section of it. What it leaves out (an agent, a client for S3) stands here.
Its first block sets no trigger, and its own troubleshooting says that nothing is saved then: here it has one.
"""

# mypy: disable-error-code="redundant-expr, return-value, arg-type, abstract, attr-defined, assignment, operator"
from __future__ import annotations

import asyncio
import functools
import gzip
import json
import time
import warnings
from datetime import datetime, timedelta

import pytest

import holdfast
from holdfast.agents import AgentState, CheckpointMetadata, FilesystemStorage, StateManager, StorageBackend


def asynchronous(test):
    @functools.wraps(test)
    def wrapper(*args, **named):
        return asyncio.run(test(*args, **named))

    return wrapper


class Agent:
    def __init__(self, fails_at=None):
        self.count = 0
        self.fails_at = fails_at

    async def step(self):
        self.count += 1
        return (
            {"error": "no answer"} if self.count == self.fails_at else {"role": "assistant", "n": self.count}
        )


@pytest.fixture(params=["files", "compressed", "store"])
def storage(request, tmp_path):
    if request.param == "store":
        with holdfast.open(tmp_path / "store", durability="process") as store:
            yield store
    else:
        yield FilesystemStorage(base_dir=tmp_path, compress=request.param == "compressed")


@asynchronous
async def test_quick_start_1_save_and_resume(storage):
    agent = Agent()
    state_manager = StateManager(storage=storage, checkpoint_frequency=10)
    agent_state = AgentState(agent_id="agent1", step_number=0, status="running")
    for step in range(100):
        agent_state.step_number = step
        result = await agent.step()
        agent_state.conversation_history.append(result)
        if state_manager.should_checkpoint(agent_state.agent_id, step, time.time()):
            await state_manager.save_checkpoint(agent_state)
    checkpoints = await state_manager.list_checkpoints(agent_id="agent1")
    latest = checkpoints[0]
    resumed_state = await state_manager.load_checkpoint(latest.checkpoint_id)

    assert resumed_state.step_number == 90
    assert [each.step_number for each in checkpoints] == list(range(90, -1, -10))
    assert len(resumed_state.conversation_history) == 91
    assert (resumed_state.checkpoint_id, resumed_state.timestamp) == (latest.checkpoint_id, latest.timestamp)
    assert resumed_state.parent_checkpoint_id == checkpoints[1].checkpoint_id


def test_quick_start_3_and_pattern_1_time_and_steps_whichever_comes_first(tmp_path):
    storage = FilesystemStorage(tmp_path)
    by_time = StateManager(storage=storage, checkpoint_interval=300.0)
    both = StateManager(storage=storage, checkpoint_frequency=10, checkpoint_interval=300.0)
    saved: dict[str, list[int]] = {"time": [], "both": []}

    async def live():
        for step in range(1, 31):
            now = 1000.0 + step * 40
            for name, manager in (("time", by_time), ("both", both)):
                if manager.should_checkpoint(agent_id=name, current_step=step, current_time=now):
                    await manager.save_checkpoint(AgentState(agent_id=name, step_number=step))
                    saved[name].append(step)

    asyncio.run(live())
    assert saved == {"time": [9, 17, 25], "both": [9, 10, 18, 20, 28, 30]}


@asynchronous
async def test_quick_start_4_forks(storage):
    state_manager = StateManager(storage)
    agent_state = AgentState(agent_id="agent1", step_number=4, memory_contents={"plan": ["a"]})
    checkpoint_id = await state_manager.save_checkpoint(agent_state)
    fork1 = await state_manager.fork_from_checkpoint(checkpoint_id)
    fork2 = await state_manager.fork_from_checkpoint(checkpoint_id)

    assert len({checkpoint_id, fork1.checkpoint_id, fork2.checkpoint_id}) == 3
    assert fork1.parent_checkpoint_id == fork2.parent_checkpoint_id == checkpoint_id
    assert fork1.snapshot() == fork2.snapshot() == agent_state.snapshot()
    name = fork1.checkpoint_id
    assert await state_manager.save_checkpoint(fork1) == name
    assert (await state_manager.load_checkpoint(name)).parent_checkpoint_id == checkpoint_id


@asynchronous
async def test_pattern_2_forced_saves(tmp_path):
    agent = Agent(fails_at=7)
    state_manager = StateManager(FilesystemStorage(tmp_path), checkpoint_frequency=10)
    agent_state = AgentState(agent_id="agent1")
    try:
        for step in range(100):
            agent_state.step_number = step
            result = await agent.step()
            if result.get("error"):
                await state_manager.save_checkpoint(agent_state, force=True)
                break
            if state_manager.should_checkpoint("agent1", step, time.time()):
                await state_manager.save_checkpoint(agent_state)
        raise ValueError("after the loop")
    except Exception:
        agent_state.status = "failed"
        await state_manager.save_checkpoint(agent_state, force=True)
    found = await state_manager.list_checkpoints("agent1")
    assert [(each.step_number, each.status) for each in found] == [
        (6, "failed"),
        (6, "running"),
        (0, "running"),
    ]


@asynchronous
async def test_pattern_3_the_tree(storage):
    state_manager = StateManager(storage)
    agent_state = AgentState(agent_id="agent1")
    checkpoint1 = await state_manager.save_checkpoint(agent_state)
    agent_state.step_number = 10
    checkpoint2 = await state_manager.save_checkpoint(agent_state)
    fork1 = await state_manager.fork_from_checkpoint(checkpoint1)
    fork1.step_number = 5
    fork1_id = await state_manager.save_checkpoint(fork1)
    tree = await state_manager.get_checkpoint_tree(agent_id="agent1")

    assert list(tree) == [checkpoint1]
    children = tree[checkpoint1]["children"]
    assert [(name, node["step_number"], node["fork"]) for name, node in children.items()] == [
        (checkpoint2, 10, False),
        (fork1_id, 5, True),
    ]
    assert (await state_manager.draw_checkpoint_tree("agent1")).splitlines() == [
        f"{checkpoint1} (step 0)",
        f"├─ {checkpoint2} (step 10)",
        f"└─ {fork1_id} (step 5) [fork]",
    ]


@asynchronous
async def test_pattern_4_automatic_cleanup(storage):
    state_manager = StateManager(storage=storage, max_checkpoints_per_agent=5)
    agent_state = AgentState(agent_id="agent1")
    other = AgentState(agent_id="agent2")
    await state_manager.save_checkpoint(other)
    for step in range(100):
        if step % 10 == 0:
            agent_state.step_number = step
            await state_manager.save_checkpoint(agent_state)
    found = await state_manager.list_checkpoints("agent1")
    assert [each.step_number for each in found] == [90, 80, 70, 60, 50]
    assert len(await state_manager.list_checkpoints("agent2")) == 1
    assert StateManager(storage=storage).max_checkpoints_per_agent == 100


@asynchronous
async def test_pattern_5_and_practice_4_selection_by_metadata(storage):
    state_manager = StateManager(storage)
    agent_state = AgentState(agent_id="agent1")
    for step, status in ((49, "running"), (50, "interrupted"), (51, "completed")):
        agent_state.step_number, agent_state.status = step, status
        agent_state.metadata = {"model": "gpt-4" if step != 50 else "m1", "experiment_id": "exp_123"}
        await state_manager.save_checkpoint(agent_state)
    checkpoints = await state_manager.list_checkpoints(agent_id="agent1")
    completed = [c for c in checkpoints if c.status == "completed"]
    interrupted = [c for c in checkpoints if c.status == "interrupted"]
    step_50 = [c for c in checkpoints if c.step_number == 50]
    with warnings.catch_warnings():
        # Python 3.12 warns of utcnow itself, whatever it is compared with.
        warnings.filterwarnings("ignore", message=".*utcnow", category=DeprecationWarning)
        recent = [c for c in checkpoints if c.timestamp > datetime.utcnow() - timedelta(hours=1)]
        state = await state_manager.load_checkpoint(checkpoints[0].checkpoint_id)
        assert datetime.utcnow() - state.timestamp < timedelta(hours=1)
    gpt4_checkpoints = [c for c in checkpoints if c.metadata.get("model") == "gpt-4"]

    assert [len(each) for each in (completed, interrupted, step_50, recent, gpt4_checkpoints)] == [
        1,
        1,
        1,
        3,
        2,
    ]
    assert all(isinstance(each, CheckpointMetadata) and each.size_bytes > 0 for each in checkpoints)


class Body:
    def __init__(self, content):
        self.content = content

    async def read(self):
        return self.content


class S3Client:
    def __init__(self):
        self.objects = {}

    async def put_object(self, Bucket, Key, Body):
        self.objects[Bucket, Key] = Body

    async def get_object(self, Bucket, Key):
        return {"Body": Body(self.objects[Bucket, Key])}


s3_client = S3Client()


class S3Storage(StorageBackend):
    async def save(self, state: AgentState) -> str:
        state_dict = state.to_dict()
        await s3_client.put_object(
            Bucket=self.bucket, Key=f"checkpoints/{state.checkpoint_id}.json", Body=json.dumps(state_dict)
        )
        return state.checkpoint_id

    async def load(self, checkpoint_id: str) -> AgentState:
        response = await s3_client.get_object(Bucket=self.bucket, Key=f"checkpoints/{checkpoint_id}.json")
        data = json.loads(await response["Body"].read())
        return AgentState.from_dict(data)

    # The guide: "Implement other required methods..."
    def __init__(self, bucket):
        self.bucket = bucket

    async def list(self, agent_id):
        states = [AgentState.from_dict(json.loads(each)) for each in s3_client.objects.values()]
        return [
            CheckpointMetadata(
                s.checkpoint_id, s.agent_id, s.timestamp, s.step_number, s.status, 1, s.parent_checkpoint_id
            )
            for s in sorted(states, key=lambda state: state.timestamp, reverse=True)
            if s.agent_id == agent_id
        ]

    async def delete(self, checkpoint_id):
        del s3_client.objects[self.bucket, f"checkpoints/{checkpoint_id}.json"]

    async def exists(self, checkpoint_id):
        return (self.bucket, f"checkpoints/{checkpoint_id}.json") in s3_client.objects


@asynchronous
async def test_a_storage_of_the_users_own():
    storage = S3Storage(bucket="my-checkpoints")
    state_manager = StateManager(storage=storage, max_checkpoints_per_agent=2)
    state = AgentState(agent_id="s3", step_number=3)
    ids = [await state_manager.save_checkpoint(state) for _ in range(3)]
    assert len(set(ids)) == 3
    assert [each.checkpoint_id for each in await state_manager.list_checkpoints("s3")] == ids[:0:-1]
    assert (await state_manager.load_checkpoint(ids[-1])).parent_checkpoint_id == ids[1]


def test_a_storage_without_its_five_methods_cannot_be_made():
    class Half(StorageBackend):
        async def save(self, state):
            return ""

    with pytest.raises(TypeError, match="load"):
        Half()


@asynchronous
async def test_conditional_checkpoints(tmp_path):
    last_checkpoint_cost = 0.0

    def should_checkpoint_custom(state: AgentState) -> bool:
        if state.status == "failed":
            return True
        if state.budget_spent_usd > last_checkpoint_cost + 1.0:
            return True
        return bool(state.pending_actions and "specialist" in str(state.pending_actions))

    state_manager = StateManager(FilesystemStorage(tmp_path))
    for state in (
        AgentState(agent_id="a"),
        AgentState(agent_id="a", status="failed"),
        AgentState(agent_id="a", budget_spent_usd=1.5),
        AgentState(agent_id="a", pending_actions=[{"call": "specialist"}]),
    ):
        if should_checkpoint_custom(state):
            await state_manager.save_checkpoint(state, force=True)
    assert len(await state_manager.list_checkpoints("a")) == 3


class aiofiles:
    """As much of the library of this name as the guide uses."""

    class open:  # noqa: A001
        def __init__(self, path, mode):
            self.file = path.open(mode)

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            self.file.close()

        async def read(self):
            return self.file.read()

        async def write(self, data):
            self.file.write(data)


class CompressedFilesystemStorage(FilesystemStorage):
    async def save(self, state: AgentState) -> str:
        state_dict = state.to_dict()
        compressed = gzip.compress(json.dumps(state_dict).encode())
        checkpoint_path = self.base_dir / f"{state.checkpoint_id}.json.gz"
        async with aiofiles.open(checkpoint_path, "wb") as f:
            await f.write(compressed)
        return state.checkpoint_id

    async def load(self, checkpoint_id: str) -> AgentState:
        checkpoint_path = self.base_dir / f"{checkpoint_id}.json.gz"
        async with aiofiles.open(checkpoint_path, "rb") as f:
            compressed = await f.read()
        data = json.loads(gzip.decompress(compressed).decode())
        return AgentState.from_dict(data)


@asynchronous
async def test_the_compressed_subclass_is_listed_and_cleaned_up_as_well(tmp_path):
    manager = StateManager(CompressedFilesystemStorage(tmp_path), max_checkpoints_per_agent=2)
    state = AgentState(agent_id="a", conversation_history=[{"text": "x" * 1000}])
    for step in range(4):
        state.step_number = step
        await manager.save_checkpoint(state)
    assert [each.step_number for each in await manager.list_checkpoints("a")] == [3, 2]
    assert (
        await manager.load_checkpoint(state.checkpoint_id)
    ).conversation_history == state.conversation_history
    assert len(list(tmp_path.iterdir())) == 2


@asynchronous
async def test_practice_5_cleaning_up_by_hand(storage):
    state_manager = StateManager(storage)
    state = AgentState(agent_id="agent1")
    for step in range(12):
        state.step_number = step
        await state_manager.save_checkpoint(state)
    old_checkpoints = await state_manager.list_checkpoints("agent1")
    cutoff = old_checkpoints[5].timestamp
    for ckpt in old_checkpoints:
        if ckpt.timestamp < cutoff:
            await state_manager.delete_checkpoint(ckpt.checkpoint_id)
    assert len(await state_manager.list_checkpoints("agent1")) == 6
    assert await state_manager.cleanup_old_checkpoints(agent_id="agent1", keep_count=4) == 2
    assert [each.step_number for each in await state_manager.list_checkpoints("agent1")] == [11, 10, 9, 8]


@asynchronous
async def test_checkpoint_save_and_load(tmp_path):
    storage = FilesystemStorage(base_dir=tmp_path)
    manager = StateManager(storage=storage)
    state = AgentState(agent_id="test", step_number=5)
    checkpoint_id = await manager.save_checkpoint(state)
    loaded = await manager.load_checkpoint(checkpoint_id)
    assert loaded.agent_id == "test"
    assert loaded.step_number == 5


@asynchronous
async def test_checkpoint_frequency(tmp_path):
    storage = FilesystemStorage(base_dir=tmp_path)
    manager = StateManager(storage, checkpoint_frequency=10)
    assert manager.should_checkpoint("agent1", current_step=10, current_time=0)
    assert not manager.should_checkpoint("agent1", current_step=5, current_time=0)
    assert not StateManager(storage).should_checkpoint("agent1", 10, 0)


@asynchronous
async def test_full_checkpoint_workflow(tmp_path):
    storage = FilesystemStorage(base_dir=tmp_path)
    manager = StateManager(storage, checkpoint_frequency=5)
    state = AgentState(agent_id="test", status="running")
    checkpoint_ids = []
    for step in range(20):
        state.step_number = step
        if manager.should_checkpoint("test", step, time.time()):
            ckpt_id = await manager.save_checkpoint(state)
            checkpoint_ids.append(ckpt_id)
    assert len(checkpoint_ids) == 4
    latest = checkpoint_ids[-1]
    resumed = await manager.load_checkpoint(latest)
    assert resumed.step_number == 15


@asynchronous
async def test_troubleshooting(tmp_path, capsys):
    storage = FilesystemStorage(base_dir=tmp_path / "checkpoints", debug=True)
    manager = StateManager(storage, max_checkpoints_per_agent=10)
    checkpoint_id = await manager.save_checkpoint(AgentState(agent_id="agent1"))
    assert ".tmp" in capsys.readouterr().err
    fork = await manager.fork_from_checkpoint(checkpoint_id)
    fork.conversation_history.append({"new": "message"})
    original = await manager.load_checkpoint(checkpoint_id)
    assert len(original.conversation_history) < len(fork.conversation_history)
