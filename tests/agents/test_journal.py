"""The journal: a step is named, its result is stored once, and after a crash it comes back."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast.agents.journal import STEPS, Journal, effects


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    target = "memory:" if request.param == "memory" else str(tmp_path / "s.db")
    with holdfast.open(target) as opened:
        yield opened


def journal(store, execution="e1", **options):
    return Journal(store.session("s"), execution, **options)


def test_a_result_comes_back_and_the_body_is_not_called_again(store) -> None:
    calls = []

    def fetch(page):
        calls.append(page)
        return {"page": page, "rows": (1, 2)}

    first = journal(store).step("fetch-a", fetch, "a")
    again = journal(store).step("fetch-a", fetch, "a")
    assert first == again == {"page": "a", "rows": (1, 2)}
    assert calls == ["a"]
    row = store.rows(STEPS).get("e1", "fetch-a")
    assert (row["status"], row["attempt"], row["session"]) == ("completed", 1, "s")


def test_async_functions_are_awaited_and_stored(store) -> None:
    async def fetch(page, *, key):
        return [page, key]

    async def both():
        return await journal(store).astep("a", fetch, 1), await journal(store).astep("a", fetch, 1)

    first, again = asyncio.run(both())
    assert first == again
    assert len(first[1]) == 32


def test_a_name_with_other_arguments_is_refused(store) -> None:
    one = journal(store)
    one.step("fetch", len, "a")
    with pytest.raises(holdfast.ConflictError) as caught:
        one.step("fetch", len, "bb")
    assert caught.value.code == "step-differs"


def test_executions_have_results_and_keys_of_their_own(store) -> None:
    a, b = journal(store, "e1").begin("x"), journal(store, "e2").begin("x")
    assert a.key != b.key
    journal(store, "e1").complete(a, 1)
    assert journal(store, "e1").begin("x").value == 1
    assert not journal(store, "e2").begin("x").done


def test_an_orphan_runs_again_with_the_same_key_and_the_next_number(store) -> None:
    first = journal(store)
    begun = first.begin("pay", inputs=[10])
    # The process dies here; another one starts.
    second = journal(store)
    assert [each.step for each in second.orphans()] == ["pay"]
    again = second.begin("pay", inputs=[10])
    assert (again.done, again.key, again.attempt) == (False, begun.key, 2)
    second.complete(again, "paid")
    # What was taken for dead comes back, and changes nothing.
    with pytest.raises(holdfast.ConflictError):
        first.complete(begun, "paid twice")
    assert journal(store).begin("pay").value == "paid"


def test_at_most_once_asks_after_it_was_cut_off(store) -> None:
    journal(store).begin("mail", effect="at_most_once")
    with pytest.raises(holdfast.StateError) as caught:
        journal(store).step("mail", lambda: "sent", effect="at_most_once")
    assert caught.value.code == "outcome-unknown"
    journal(store).settle("mail", again=True)
    assert journal(store).step("mail", lambda: "sent", effect="at_most_once") == "sent"
    journal(store).begin("other", effect="at_most_once")
    journal(store).settle("other", value=7)
    assert journal(store).step("other", lambda: 1 / 0, effect="at_most_once") == 7
    happened = [(each.step, each.happened) for each in effects(store, "s")]
    assert happened == [("mail", True), ("other", True)]


def test_an_idempotent_step_is_written_once(store) -> None:
    one = journal(store)
    handle = one.begin("read", idempotent=True)
    assert store.rows(STEPS).get("e1", "read") is None
    one.complete(handle, 1)
    assert journal(store).begin("read", idempotent=True).value == 1


def test_a_failed_attempt_is_noted_and_the_next_one_counted(store) -> None:
    with pytest.raises(ZeroDivisionError):
        journal(store).step("divide", lambda: 1 / 0)
    row = store.rows(STEPS).get("e1", "divide")
    assert (row["status"], row["failures"]) == ("failed", 1)
    assert "ZeroDivisionError" in row["error"]
    assert journal(store).step("divide", lambda: 2) == 2
    assert store.rows(STEPS).get("e1", "divide")["attempt"] == 2


def test_a_result_that_cannot_be_saved_is_refused_with_its_path(store) -> None:
    with pytest.raises(holdfast.InvalidInputError, match="client"):
        journal(store).step("open", lambda: {"client": object()})
    assert store.rows(STEPS).get("e1", "open")["status"] == "failed"


def test_a_result_and_its_checkpoint_are_one_transaction(store) -> None:
    session = store.session("s")
    document = session.document(default={"done": []})
    kept = Journal(session, "e1", commit=lambda rows: document.save("a step", rows=rows))
    handle = kept.begin("a")
    document["done"].append("a")
    kept.complete(handle, 1)
    assert store.session("s").load() == {"done": ["a"]}
    # The same again, but the branch has moved: neither is written.
    handle = kept.begin("b")
    store.session("s").save({"done": ["somebody else"]})
    document["done"].append("b")
    with pytest.raises(holdfast.ConflictError):
        kept.complete(handle, 2)
    assert store.rows(STEPS).get("e1", "b")["status"] == "running"


def test_nothing_is_written_under_a_lost_lease(store) -> None:
    session = store.session("s")
    lease = store.lease("run:s")
    fenced = Journal(session, "e1", lease=lease)
    handle = fenced.begin("a")
    lease.release()
    store.lease("run:s")
    with pytest.raises(holdfast.ConflictError) as caught:
        fenced.complete(handle, 1)
    assert caught.value.code == "lease-lost"
    assert store.rows(STEPS).get("e1", "a")["status"] == "running"


def test_a_part_of_the_work_is_there_in_the_next_attempt(store) -> None:
    one = journal(store)
    one.keep_partial(one.begin("crawl"), {"pages": 3})
    assert journal(store).begin("crawl").partial == {"pages": 3}


def test_the_same_step_twice_at_once_is_refused(store) -> None:
    one = journal(store)
    one.begin("a")
    with pytest.raises(holdfast.ConflictError) as caught:
        one.begin("a")
    assert caught.value.code == "step-running"


def test_names_are_checked(store) -> None:
    for name in ("", "a\nb", 3, "x" * 501):
        with pytest.raises(holdfast.InvalidInputError):
            journal(store).begin(name)


def test_of_two_who_begin_the_next_attempt_one_gets_it(store) -> None:
    journal(store).begin("a")
    ours, theirs = journal(store), journal(store)
    assert [each.steps()["a"].attempt for each in (ours, theirs)] == [1, 1]
    handle = ours.begin("a")
    with pytest.raises(holdfast.ConflictError) as refused:
        theirs.begin("a")
    assert refused.value.code == "row-conflict"
    ours.complete(handle, "ours")
    assert journal(store).begin("a").value == "ours"
