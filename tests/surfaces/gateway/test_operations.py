"""Every operation, with good input and with bad, over JSON-RPC; those that read also with GET."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import Any

import pytest

from holdfast.operations import OPERATIONS, load_operations

A = {"session": "a"}
GOOD: dict[str, dict[str, Any]] = {
    "checkpoint.list": A,
    "checkpoint.show": A,
    "checkpoint.load": A | {"path": "notes"},
    "checkpoint.at": A | {"when": "now"},
    "checkpoint.diff": A,
    "checkpoint.create": A | {"state": {"x": 1}, "message": "m", "tags": ["t"], "step": 4, "key": "k"},
    "checkpoint.restore": A | {"checkpoint": "@~1"},
    "checkpoint.tag": A | {"checkpoint": "@", "add": ["good"], "remove": ["bad"]},
    "checkpoint.pin": A | {"checkpoint": "@~1"},
    "checkpoint.annotate": A | {"checkpoint": "@", "message": "better", "metadata": {"model": "m"}},
    "checkpoint.delete": A | {"checkpoint": "@~1"},
    "session.list": {},
    "session.tree": A,
    "session.operations": A,
    "session.undo": A,
    "session.redo": A,
    "session.prune": A | {"last": 1, "only": True},
    "branch.list": A,
    "branch.fork": A | {"name": "other"},
    "branch.switch": A | {"name": "side"},
    "branch.merge": A | {"ref": "side"},
    "search.grep": A | {"pattern": "bug"},
    "search.bisect": A | {"condition": "score >= 2"},
    "search.blame": A | {"path": "score"},
    "search.history": A | {"path": "score"},
    "store.stats": {},
    "store.verify": {},
    "store.gc": {"keep_days": 0},
    "store.forget": A,
    "live.list": {},
    "notebook.note": {"session": "nb", "text": "it is the cache", "kind": "hypothesis"},
    "notebook.brief": {"session": "nb"},
    "plan.status": {"session": "plan"},
    "plan.approve": {"session": "plan", "step": "publish"},
    "plan.cancel": {"session": "plan"},
    "job.get": {},
}
"""What works after `world` was made."""


@pytest.fixture
def world(gateway, store, saved):
    from holdfast.agents import Executor, Plan

    session = store.session("a")
    session.fork("@~1", "side").save({"score": 9})
    session.restore("@~1")
    gateway.call("notebook.note", session="nb", text="look at the cache")
    plan = Plan("p", steps=[{"id": "publish", "action": "print"}])
    Executor(store.session("plan"), actions={"print": print}).submit(plan)
    return gateway


def test_each_operation_is_in_the_table():
    assert sorted(GOOD) == sorted(load_operations())


@pytest.mark.parametrize(
    "name", [name for name in GOOD if name not in ("job.get", "plan.approve", "session.redo")]
)
def test_it_works(world, name):
    asked = OPERATIONS[name]
    told = world.confirmed(name, **GOOD[name]) if asked.destroys else world.call(name, **GOOD[name])
    assert isinstance(told, dict)
    assert "code" not in told, told
    if asked.path is not None:
        given = dict(GOOD[name])
        path = asked.path.format(session=given.pop("session", ""), checkpoint="@")
        answer = world.get(path, params=given)
        assert answer.status_code == 200, answer.text
        assert answer.json().keys() == told.keys()


@pytest.mark.parametrize("name", GOOD)
def test_what_is_wrong_in_a_call_is_refused_with_its_place(world, name):
    told = world.call(name, **GOOD[name], surplus=1)
    assert told["code"] == "bad-argument"
    assert "surplus" in told["message"]
    for field in OPERATIONS[name].schema()["properties"]:
        if field == "state":  # takes everything
            continue
        told = world.call(
            name, **{**GOOD[name], field: 3 if field in ("metadata", "parameters") else {"$": "x"}}
        )
        assert told["code"] == "bad-argument", field
        assert f"$.{field}" in told["message"] or field in told["message"]


@pytest.mark.parametrize("name", GOOD)
def test_what_takes_more_than_the_scope_is_refused(gateway, name):
    wanted = OPERATIONS[name].scope
    for scope in ("read", "write", "admin"):
        told = gateway.call(name, scope=scope, **GOOD[name])
        order = ["read", "write", "admin"]
        assert (told.get("code") == "permission-denied") == (order.index(scope) < order.index(wanted))


def test_undo_and_redo(world, store):
    head = store.session("a").checkpoint().id
    world.call("session.undo", session="a")
    assert store.session("a").checkpoint().id != head
    world.call("session.redo", session="a")
    assert store.session("a").checkpoint().id == head


def test_a_list_goes_on_page_by_page(gateway, saved):
    first = gateway.call("checkpoint.list", session="a", limit=2)
    assert [each["id"] for each in first["checkpoints"]] == saved[:0:-1]
    assert first["more"]
    rest = gateway.call("checkpoint.list", session="a", limit=2, after=first["checkpoints"][-1]["id"])
    assert [each["id"] for each in rest["checkpoints"]] == saved[:1]
    assert not rest["more"]
    assert {"id", "timestamp", "beat_count"} <= rest["checkpoints"][0].keys()


def test_a_key_saves_once(gateway, store):
    twice = [gateway.call("checkpoint.create", session="k", state={"x": 1}, key="one") for _ in range(2)]
    assert twice[0]["checkpoint"]["id"] == twice[1]["checkpoint"]["id"]
    assert gateway.call("checkpoint.create", session="k", state={"x": 2}, key="one")["code"] == "key-taken"
    assert gateway.call("checkpoint.create", session="k", state={}, expect="@~1")["code"] in (
        "branch-moved",
        "history-too-short",
    )


def test_saves_go_on_from_whatever_is_newest(gateway, store):
    def save(number):
        return gateway.call("checkpoint.create", session="w", state={"x": number, "rows": list(range(1000))})

    first = save(1)["checkpoint"]
    assert save(2)["checkpoint"]["prev"] == first["id"]
    session = store.session("w")
    theirs = session.save({"somebody": "else"})
    assert save(3)["checkpoint"]["prev"] == theirs.id
    session.fork(first["id"], "side")
    session.switch("side")
    assert save(4)["checkpoint"]["branch"] == "side"
    store.forget("w")
    assert save(5)["checkpoint"]["prev"] is None
    assert store.session("w").load()["x"] == 5
    for number in range(20):  # more sessions than writers are kept
        gateway.call("checkpoint.create", session=f"w{number}", state={})
    told = gateway.call("checkpoint.create", session="w", state={}, expect="@~1")
    assert told["code"] in ("branch-moved", "history-too-short")


# A confirmation, where something is destroyed


@pytest.mark.parametrize("name", [name for name, each in load_operations().items() if each.destroys])
def test_nothing_happens_without_a_confirmation(world, store, name):
    before = _everything(store)
    for wrong in ({}, {"confirm": "x" * 32}, {"confirm": ""}):
        told = world.call(name, **GOOD[name], **wrong)
        assert told["code"] == "needs-confirmation"
        assert told["details"]["plan"]
        assert _everything(store) == before


def test_a_confirmation_is_for_one_plan_alone(world, store):
    token = world.call("checkpoint.restore", session="a", checkpoint="@~1")["details"]["confirm"]
    others = [
        ("checkpoint.restore", {"session": "a", "checkpoint": "@~2"}),
        ("checkpoint.restore", {"session": "a", "checkpoint": "@~1", "branch": "side"}),
        ("checkpoint.delete", {"session": "a", "checkpoint": "@~1"}),
    ]
    for name, params in others:
        assert world.call(name, **params, confirm=token)["code"] == "needs-confirmation"
    store.session("a").save({"somebody": "else"})
    told = world.call("checkpoint.restore", session="a", checkpoint="@~1", confirm=token)
    assert told["code"] == "needs-confirmation"


def test_a_confirmation_is_good_once(world, store):
    """Also where the same plan comes up again: after an undo everything is as it was."""
    newest = store.session("a").checkpoint().id
    given = {"session": "a", "checkpoint": newest}
    token = world.call("checkpoint.delete", **given)["details"]["confirm"]
    assert world.call("checkpoint.delete", **given, confirm=token)["changed"]
    world.call("session.undo", session="a")
    told = world.call("checkpoint.delete", **given, confirm=token)
    assert told["code"] == "needs-confirmation"
    assert store.session("a").checkpoint().id == newest
    assert world.call("checkpoint.delete", **given, confirm=told["details"]["confirm"])["changed"]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("checkpoint.delete", {"checkpoint": "@"}),
        ("checkpoint.restore", {"checkpoint": "@~1"}),
        ("store.forget", {"checkpoints": ["@"]}),
    ],
)
def test_what_is_carried_out_is_what_was_confirmed_whoever_saves_meanwhile(
    gateway, store, saved, monkeypatch, name, params
):
    token = gateway.call(name, session="a", **params)["details"]["confirm"]
    asked, newer = OPERATIONS[name], []

    @wraps(asked.function)
    def moves(service, **given):
        told = asked.function(service, **given)
        if given.get("dry_run"):  # the plan is made; an agent saves before it is carried out
            newer.append(store.session("a").save({"score": 4}).id)
        return told

    monkeypatch.setitem(OPERATIONS, name, replace(asked, function=moves))
    told = gateway.call(name, session="a", **params, confirm=token)
    assert "code" not in told, told
    session = store.session("a")
    left = [each.id for each in session.log()]
    if name == "checkpoint.restore":
        assert left[1:] == [*newer, *reversed(saved)]
        assert session.load() == session.load(saved[1])
    else:
        assert left == [*newer, *reversed(saved[:2])]


def _everything(store):
    heads = [(each.name, each.head.id) for each in store.session("a").branches()]
    return heads, len(store.find()), store.stats()
