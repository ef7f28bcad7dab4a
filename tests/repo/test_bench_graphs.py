"""The benchmark of the LangGraph saver: what comes back is compared, and not while the clock runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from bench import graphs

STEPS = 40
SAID = [f"message {n}" for n in range(STEPS)]


class Saver:
    """Gives every state of a conversation, the newest first, but for one that somebody spoiled."""

    label, delta = "saver", False

    def __init__(self, spoiled: int | None = None) -> None:
        self.checkpointer = self
        self._states = [SAID[: STEPS - n] for n in range(STEPS)]
        if spoiled is not None:
            self._states[spoiled] = ["something else"]

    def open(self) -> Saver:
        return self

    def close(self, _saver: Any) -> None:
        pass

    def get_state(self, _config: Any) -> Any:
        return SimpleNamespace(values={"messages": self._states[0]})

    def get_state_history(self, _config: Any, limit: int) -> Any:
        return (SimpleNamespace(values={"messages": each}) for each in self._states[:limit])

    def list(self, _config: Any, limit: int) -> Any:
        return (
            SimpleNamespace(checkpoint={"channel_values": {"messages": each}})
            for each in self._states[:limit]
        )


WORK = {"get_state": graphs._get_state, "list": graphs._list, "history": graphs._history}


@pytest.fixture(autouse=True)
def _no_graph(monkeypatch):
    monkeypatch.setattr(graphs, "build", lambda saver, _messages, delta: saver)


@pytest.mark.parametrize("what", list(WORK))
def test_what_comes_back_is_compared_with_what_was_said(what):
    wall, _ = graphs._opened(Saver(), SAID, WORK[what])
    assert wall > 0
    with pytest.raises(graphs.WrongStateError, match="not the 40 that were said"):
        graphs._opened(Saver(spoiled=0), SAID, WORK[what])


@pytest.mark.parametrize("what", ["list", "history"])
def test_a_sample_of_older_states_is_compared_too(what):
    for spoiled in (4, 20, 36):
        with pytest.raises(graphs.WrongStateError):
            graphs._opened(Saver(spoiled=spoiled), SAID, WORK[what])


@pytest.mark.parametrize("what", list(WORK))
def test_nothing_is_compared_while_the_clock_runs(what, monkeypatch):
    timed, check, order = graphs.timed, graphs._check, []

    def timing(call: Any) -> Any:
        order.append("started")
        result = timed(call)
        order.append("stopped")
        return result

    def checking(*given: Any) -> None:
        order.append("compared")
        check(*given)

    monkeypatch.setattr(graphs, "timed", timing)
    monkeypatch.setattr(graphs, "_check", checking)
    graphs._opened(Saver(), SAID, WORK[what])
    assert order == ["started", "stopped", "compared"]
