"""REST twins: statuses, ETags, pages; and schemathesis, which tries what the OpenAPI description allows and forbids."""

from __future__ import annotations

import pytest
from tests.surfaces.gateway.conftest import HOST, TOKENS


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/sessions", 200),
        ("/v1/sessions/a/checkpoints?limit=1", 200),
        ("/v1/sessions/a/checkpoints?limit=0", 400),
        ("/v1/sessions/a/checkpoints?limit=many", 400),
        ("/v1/sessions/a/checkpoints?nothing=1", 400),
        ("/v1/sessions/a/checkpoints/%231", 200),
        ("/v1/sessions/a/checkpoints/%2399", 404),
        ("/v1/sessions/none/checkpoints", 404),
        ("/v1/sessions/a/checkpoints/@/state?path=notes[0]", 404),
        ("/v1/sessions/a/checkpoints/@/state?path=[", 400),
        ("/v1/nothing", 404),
        ("/", 404),
        ("/v1/sessions/..%2f..%2fetc%2fpasswd/checkpoints", 404),
        ("/v1/sessions/../../etc/passwd", 404),
        ("/v1/sessions/%00/checkpoints", 400),
        ("/v1/sessions/-x/checkpoints", 404),
        ("/rpc", 405),
    ],
)
def test_each_has_its_status(gateway, saved, path, status):
    assert gateway.get(path).status_code == status


def test_a_reader_that_has_a_state_is_sent_nothing(gateway, store, saved):
    path = "/v1/sessions/a/checkpoints/@/state"
    first = gateway.get(path)
    root = store.session("a").checkpoint().root
    assert root in first.headers["etag"]
    have = {"If-None-Match": first.headers["etag"]}
    again = gateway.get(path, headers=have)
    assert (again.status_code, again.content) == (304, b"")
    assert gateway.get(path, headers=have, params={"path": "score"}).status_code == 200
    store.session("a").save({"another": "state"})
    assert gateway.get(path, headers=have).status_code == 200


def test_a_list_has_an_etag_as_well(gateway, store, saved):
    first = gateway.get("/v1/sessions/a/checkpoints")
    have = {"If-None-Match": first.headers["etag"]}
    assert gateway.get("/v1/sessions/a/checkpoints", headers=have).status_code == 304
    store.session("a").tag("@", "new")
    assert gateway.get("/v1/sessions/a/checkpoints", headers=have).status_code == 200


def test_nothing_that_writes_can_be_asked_for_with_get():
    from holdfast.operations import load_operations

    assert all(each.scope == "read" for each in load_operations().values() if each.path is not None)


def test_errors_tell_nothing_of_this_machine(gateway, store, tmp_path, saved):
    store.close()
    answer = gateway.get("/v1/sessions")
    assert answer.status_code >= 500 or answer.json()["error"]["code"] == "store-closed"
    assert str(tmp_path) not in answer.text


def test_schemathesis_finds_no_answer_that_the_description_does_not_have(gateway, saved, require):
    require("schemathesis")
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings

    headers = {"Authorization": f"Bearer {TOKENS['read']}", "Host": HOST}
    description = gateway.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(description)
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()  # type: ignore[union-attr]

        @settings(
            max_examples=15,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case):
            nonlocal tried
            tried += 1
            path = case.formatted_path
            answer = gateway.get(path, params=case.query or {}, headers=headers)
            assert answer.status_code in (200, 202, 304, 400, 404, 409), (path, case.query, answer.text)
            if answer.status_code >= 400 and answer.headers.get("content-type") == "application/json":
                assert {"code", "message", "hint", "exit", "details"} == answer.json()["error"].keys()

        check()
    assert tried > 100
