"""Files of another program: their id is the key, and nothing in them is taken for a tag of ours."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

import holdfast
from holdfast import ConflictError, ErrorCode, InvalidInputError, UnsupportedError

FILE: dict[str, Any] = {
    "version": "0.0.1",
    "id": "ckpt_abc123",
    "timestamp": 1738790400000,
    "execution_id": "exec_xyz",
    "agent_id": "my-agent",
    "snapshot": {
        "thought_chain": [
            {
                "id": "thought_001",
                "type": "reasoning",
                "content": "I need to analyze the codebase structure",
                "confidence": 0.85,
                "created_at": 1738790300000,
            }
        ],
        "context": {"variables": {"task": "code analysis"}, "state": {}, "history": []},
        "tool_state": {"calls": [], "results": {}},
        "progress": {"step_number": 1, "total_thoughts": 1, "total_tool_calls": 0},
    },
    "metadata": {
        "step_number": 1,
        "tokens_used": 250,
        "duration_ms": 1200,
        "checkpoint_reason": "thought_completed",
    },
}


@pytest.fixture
def store():
    with holdfast.open("memory:") as made:
        yield made


def written(folder, name="ckpt_abc123.json", **changes):
    path = folder / name
    path.write_text(json.dumps(FILE | changes))
    return path


def test_it_comes_in_with_its_id_as_the_key(store, tmp_path):
    report = store.import_(written(tmp_path))
    made = store.session("exec_xyz").checkpoint("key:ckpt_abc123")
    assert report.checkpoints == 1
    assert store.session("exec_xyz").load() == FILE["snapshot"]
    assert (made.step, made.tokens, made.duration_ms, made.agent) == (1, 250, 1200.0, "my-agent")
    assert made.metadata == {"checkpoint_reason": "thought_completed"}
    assert made.created_at == dt.datetime.fromtimestamp(1738790400, dt.UTC)
    assert store.verify().ok


def test_the_session_can_be_chosen_and_work_goes_on_there(store, tmp_path):
    store.import_(written(tmp_path), session="research")
    session = store.session("research")
    state = session.load()
    assert session.save(state | {"more": 1}).parent == session.checkpoint("key:ckpt_abc123").id


def test_again_it_is_known_by_its_key_and_another_state_is_a_conflict(store, tmp_path):
    store.import_(written(tmp_path))
    assert store.import_(written(tmp_path)).unchanged == 1
    with pytest.raises(ConflictError) as caught:
        store.import_(written(tmp_path, snapshot={"other": 1}))
    assert caught.value.code is ErrorCode.KEY_TAKEN
    assert len(store.find()) == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": "1.0.0"}, UnsupportedError),
        ({"version": 3}, UnsupportedError),
        ({"id": None}, InvalidInputError),
        ({"id": "a\nb"}, InvalidInputError),
        ({"snapshot": None}, InvalidInputError),
        ({"timestamp": "yesterday"}, InvalidInputError),
        ({"timestamp": 10**18}, InvalidInputError),
        ({"timestamp": True}, InvalidInputError),
        ({"metadata": []}, InvalidInputError),
        ({"metadata": {"tokens_used": -1}}, InvalidInputError),
        ({"execution_id": ""}, InvalidInputError),
        ({"agent_id": 7}, InvalidInputError),
    ],
)
def test_what_cannot_be_kept_is_refused(store, tmp_path, changes, error):
    with pytest.raises(error):
        store.import_(written(tmp_path, **changes))
    assert store.sessions() == []
