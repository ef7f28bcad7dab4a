"""`created_at` of a save: when something was made that is brought here from elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast import InvalidInputError

WHEN = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture(params=["memory:", "sqlite"])
def store(request, tmp_path):
    with holdfast.open(tmp_path / "s.db" if request.param == "sqlite" else request.param) as opened:
        yield opened


def test_a_checkpoint_has_the_time_that_it_is_given(store):
    session = store.session("s")
    saved = session.save({"n": 1}, created_at=WHEN)
    assert saved.created_at == WHEN
    assert session.checkpoint(saved.id).created_at == WHEN
    assert store.verify().ok


def test_a_child_is_never_older_than_its_parent(store):
    session = store.session("s")
    session.save({"n": 1}, created_at=WHEN)
    second = session.save({"n": 2}, created_at=WHEN - timedelta(days=1))
    third = session.save({"n": 3}, created_at=WHEN + timedelta(days=1))
    assert second.created_at == WHEN + timedelta(microseconds=1)
    assert third.created_at == WHEN + timedelta(days=1)
    assert session.at(WHEN + timedelta(hours=1)).id == second.id
    before = datetime.now(UTC)
    assert session.save({"n": 4}).created_at >= before - timedelta(minutes=1)


@pytest.mark.parametrize("wrong", ["2024-02-29", 0, 1.5, WHEN.date()])
def test_what_is_no_datetime_is_refused(store, wrong: Any):
    with pytest.raises(InvalidInputError) as refused:
        store.session("s").save({"n": 1}, created_at=wrong)
    assert refused.value.code == "bad-argument"
    assert "created_at" in str(refused.value)
    assert store.sessions() == []
