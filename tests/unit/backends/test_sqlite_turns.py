"""A thread that saves while it saves is told so; the save that it interrupted is none the worse for it."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.backends.sqlite import SqliteBackend, turns, write
from holdfast.errors import BackendError, ErrorCode
from holdfast.testing.rows import save


def interrupt_once(monkeypatch: pytest.MonkeyPatch, interruption: Any) -> None:
    """Have something happen in the middle of the next transaction."""
    writing, left = write.write, [interruption]

    def interrupted(*args: Any) -> Any:
        if left:
            left.pop()()
        return writing(*args)

    monkeypatch.setattr(write, "write", interrupted)


def test_a_save_inside_of_a_save_is_refused_at_once(
    store: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[BackendError] = []

    def save_another() -> None:
        with pytest.raises(BackendError) as caught:
            store.commit(save("inner", session="other"))
        refusals.append(caught.value)

    interrupt_once(monkeypatch, save_another)
    store.commit(save("outer"))
    assert [each.code for each in refusals] == [ErrorCode.STORE_LOCKED]
    assert "this thread is in the middle of a save" in str(refusals[0])
    store.commit(save("inner", session="other"))
    store.commit(save("next", after="outer"))


def test_other_threads_wait_for_their_turn(store: SqliteBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def commit() -> None:
        begun.set()
        store.commit(save("theirs", session="other"))

    other = threading.Thread(target=commit)

    def start_another() -> None:
        other.start()
        begun.wait(10)

    interrupt_once(monkeypatch, start_another)
    store.commit(save("mine"))
    other.join(10)
    with store.reader() as reader:
        assert {each.id for each in reader.sessions()} == {"work", "other"}


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal here")
def test_a_handler_that_saves_what_is_being_saved_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str | None] = []
    with holdfast.open(tmp_path / "store.db", durability="process") as opened:
        session = opened.session("work")
        session.save({"step": 0})

        def on_signal(*_: object) -> None:
            try:
                session.save({"step": "the last"})
            except BackendError as error:
                told.append(error.hint)

        before = signal.signal(signal.SIGUSR1, on_signal)
        try:
            interrupt_once(monkeypatch, lambda: signal.raise_signal(signal.SIGUSR1))
            session.save({"step": 1})
            assert session.load() == {"step": 1}
            signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert session.load() == {"step": "the last"}
    assert len(told) == 1
    assert "interrupts()" in str(told[0])


@pytest.mark.parametrize("step", range(1, 7))
def test_an_interruption_at_any_step_of_a_turn_leaves_nobody_waiting(open_store: Any, step: int) -> None:
    store: SqliteBackend = open_store(timeout=0.5)
    passed: list[str] = []

    def interrupt(frame: Any, event: str, _: object) -> None:
        # Where Python looks for signals: at the beginning of a function, and behind a call into C.
        if frame.f_code.co_filename == turns.__file__ and event in ("call", "c_return"):
            passed.append(event)
            if len(passed) == step:
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        store.commit(save("a"))
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(before)
    assert len(passed) >= min(step, 3)
    failures: list[BaseException] = []

    def commit() -> None:
        try:
            store.commit(save("b", session="other"))
        except BackendError as error:
            failures.append(error)

    other = threading.Thread(target=commit)
    other.start()
    other.join()
    assert not failures
    store.commit(save("c", session="third"))
