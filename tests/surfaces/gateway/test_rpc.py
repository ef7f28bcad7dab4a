"""JSON-RPC 2.0: the examples of its specification, and what each error is told as."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest
from tests.surfaces.gateway.conftest import Local

LIST = {"jsonrpc": "2.0", "method": "session.list"}


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar"]', -32700),
        (b"", -32700),
        (b"[" * 100_000, -32700),
        (b"\xff\xfe{}", -32700),
        ([], -32600),
        ([1], [-32600]),
        ([1, 2, 3], [-32600] * 3),
        (1, -32600),
        ({"jsonrpc": "2.0", "method": 1, "params": "bar"}, -32600),
        ({"jsonrpc": "1.0", "method": "session.list", "id": 1}, -32600),
        ({"method": "session.list", "id": 1}, -32600),
        ({**LIST, "params": "bar", "id": 1}, -32600),
        ({**LIST, "id": {}}, -32600),
        ({**LIST, "id": True}, -32600),
        ({**LIST, "method": "foobar", "id": "1"}, -32601),
        ({**LIST, "params": {"nothing": 1}, "id": 1}, -32602),
        ({**LIST, "params": {"limit": "many"}, "id": 1}, -32602),
        ({**LIST, "params": ["x"] * 9, "id": 1}, -32602),
        ({**LIST, "method": "checkpoint.show", "params": {"session": "none"}, "id": 1}, -32004),
        ([{**LIST, "id": 1}, {**LIST, "method": "x", "id": 2}, {}, LIST], [None, -32601, -32600]),
        ([{**LIST, "id": 1}] * 51, -32600),
        ([{"jsonrpc": "2.0", "method": "x"}] * 100_000, -32600),
    ],
)
def test_each_error_has_its_code(gateway, body, codes):
    told = gateway.rpc(body)
    if isinstance(codes, list):
        assert [each.get("error", {}).get("code") for each in told] == codes
    else:
        assert told["error"]["code"] == codes
    for each in told if isinstance(told, list) else [told]:
        assert each["jsonrpc"] == "2.0"
        assert ("result" in each) != ("error" in each)
        assert "id" in each


def test_notifications_are_carried_out_and_not_answered(gateway, store):
    note = {"jsonrpc": "2.0", "method": "checkpoint.create", "params": {"session": "n", "state": {}}}
    assert gateway.rpc(note) is None
    assert gateway.rpc([note, {**note, "method": "nothing"}]) is None
    assert len(store.session("n").log()) == 2


@pytest.mark.parametrize("number", [1, 0, -7, 2.5, "text", None])
def test_an_id_comes_back_as_it_was(gateway, number):
    told = gateway.rpc({**LIST, "id": number})
    assert told["id"] == number
    assert type(told["id"]) is type(number)


def test_a_batch_is_answered_in_its_order(gateway):
    told = gateway.rpc([{**LIST, "id": at} for at in range(50)])
    assert [each["id"] for each in told] == list(range(50))


def test_parameters_can_be_given_by_place(gateway, saved):
    told = gateway.rpc({"jsonrpc": "2.0", "id": 1, "method": "checkpoint.diff", "params": ["@~2", "@", "a"]})
    by_name = gateway.call("checkpoint.diff", a="@~2", b="@", session="a")
    assert told["result"] == by_name


def test_a_state_is_the_same_on_the_way_in_and_out(gateway, store):
    state = {"text": "ä\u2028\x00", "big": 2**80, "deep": [[{"x": [None, True, 1.5]}]], "$type": "mine"}
    gateway.call("checkpoint.create", session="x", state=state)
    assert store.session("x").load() == state
    told = gateway.call("checkpoint.load", session="x")["state"]
    assert told == store.json_form(state)
    gateway.call("checkpoint.create", session="x", state=told, tagged=True)
    assert store.session("x").load() == state
    assert store.session("x").checkpoint().root == store.session("x").checkpoint("@~1").root


def test_tagged_json_is_decoded_only_where_it_is_asked_for(gateway, store):
    tagged = {"$type": "tuple", "$value": [1, 2]}
    gateway.call("checkpoint.create", session="x", state=tagged)
    assert store.session("x").load() == tagged
    gateway.call("checkpoint.create", session="x", state=tagged, tagged=True)
    assert store.session("x").load() == (1, 2)


def test_an_operation_that_takes_long_becomes_a_job(store, monkeypatch):
    local = Local(store, wait_seconds=0.0)
    slow: Future[Any] = Future()
    with monkeypatch.context() as patched:
        patched.setattr(local.service, "submit", lambda *_, **__: slow)
        told = local.call("store.verify")
        answer = local.get("/v1/verify")
    assert told["code"] == "still-running"
    assert answer.status_code == 202
    job = told["details"]["job"]["id"]
    assert not local.service.job(job).done
    slow.set_exception(RuntimeError("secret"))
    done = local.service.job(job).to_dict()
    assert done["done"]
    assert done["error"]["code"] == "internal"
    assert "secret" not in json.dumps(done)
    local.service.close()


def test_the_description_has_every_operation(gateway):
    from holdfast.operations import OPERATIONS

    described = gateway.rpc({"jsonrpc": "2.0", "id": 1, "method": "rpc.discover"})["result"]
    assert [each["name"] for each in described["methods"]] == list(OPERATIONS)
    assert all(each["summary"].endswith(".") for each in described["methods"])
    assert gateway.get("/openrpc.json").json() == json.loads(json.dumps(described))
