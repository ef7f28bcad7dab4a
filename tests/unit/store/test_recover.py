"""Recovery: the newest checkpoint that is whole, at or before the one that was asked for, and a word about the rest."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import holdfast
from holdfast import ErrorCode, IntegrityError, RecoveryWarning

from .damage import chunk_of, flip, root_page, spoil

PAGE = 4096


on_sqlite = pytest.mark.parametrize("path", ["sqlite"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def path(request, tmp_path):
    return request.getfixturevalue("postgres_store") if request.param == "postgres" else tmp_path / "store.db"


@pytest.fixture
def saved(path):
    with holdfast.open(path, durability="process") as store:
        session = store.session("s")
        made = [
            session.save({"step": n, "own": f"only {n}" * 3}, tags=["even"] * (n % 2 == 0)) for n in range(6)
        ]
        session.fork("#3", "try").save({"other": 1})
    return made


def damage_state(path, checkpoint):
    spoil(path, "UPDATE chunks SET data = x'00' WHERE number = ?", chunk_of(path, checkpoint.id))


def damage_row(path, checkpoint):
    spoil(path, "UPDATE checkpoints SET message = 'x' WHERE id = ?", bytes.fromhex(checkpoint.id))


def recover(path, ref="@", **place):
    with holdfast.open(path, damaged=True) as store:
        return store.session("s", **place).recover(ref)


@pytest.mark.parametrize("damage", [damage_state, damage_row])
def test_the_newest_that_is_whole_is_served_and_the_others_are_named(path, saved, damage):
    damage(path, saved[5])
    damage_state(path, saved[4])
    found = recover(path)
    assert found.state["step"] == 3
    assert found.checkpoint.id == saved[3].id
    assert [(each.id, each.seq) for each in found.damaged] == [(saved[5].id, 6), (saved[4].id, 5)]
    assert all(each.why for each in found.damaged)


def test_a_row_that_is_lost_on_the_way_is_passed_over(path, saved):
    damage_state(path, saved[5])
    damage_row(path, saved[4])
    found = recover(path)
    assert found.checkpoint.id == saved[3].id
    assert [each.seq for each in found.damaged] == [6, 5]


@pytest.mark.parametrize("ref", ["#5", "@-", "{id}", "{prefix}", "tag:even"])
@pytest.mark.parametrize("damage", [damage_state, damage_row])
def test_any_ref_can_be_recovered(path, saved, damage, ref):
    damage(path, saved[4])
    ref = ref.format(id=saved[4].id, prefix=saved[4].id[:8])
    found = recover(path, ref)
    if (ref, damage) == ("tag:even", damage_row):
        # The tag was in the row that is lost; the one before it has it too.
        assert found.checkpoint.id == saved[2].id
    elif (ref, damage) == ("@-", damage_row):
        assert found.checkpoint.id in (saved[5].id, saved[3].id)
    else:
        assert found.checkpoint.id == saved[3].id


@on_sqlite
def test_a_page_that_is_damaged_around_what_is_whole_is_no_loss(path, saved):
    flip(path, root_page(path, "checkpoints") * PAGE - 3)
    with holdfast.open(path, damaged=True) as store:
        with pytest.raises(IntegrityError):
            store.session("s").load()
        found = store.session("s").recover()
        assert (found.checkpoint.id, found.damaged) == (saved[5].id, ())
        with pytest.warns(RecoveryWarning, match="only recovery"):
            assert store.session("s").load(recover=True)["step"] == 5


def test_a_damaged_branch_is_no_loss(path, saved):
    spoil(path, "UPDATE branches SET head = zeroblob(32) WHERE name = 'main'")
    assert recover(path).checkpoint.id == saved[5].id


def test_load_can_be_asked_to_recover_and_says_so(path, saved):
    damage_state(path, saved[5])
    with holdfast.open(path) as store:
        session = store.session("s")
        with pytest.raises(IntegrityError):
            session.load()
        with pytest.warns(RecoveryWarning) as told:
            assert session.load(recover=True)["step"] == 4
        (warning,) = told
        assert "#5" in str(warning.message)
        assert saved[5].id[:12] in str(warning.message)
        assert warning.filename == __file__


@dataclass
class Work:
    step: int
    own: str


def test_a_part_and_a_type_can_be_recovered_too(path, saved):
    damage_state(path, saved[5])
    with holdfast.open(path) as store:
        with pytest.warns(RecoveryWarning):
            assert store.session("s").load(recover=True, path="step") == 4
        with pytest.warns(RecoveryWarning):
            assert store.session("s").load(recover=True, as_=Work) == Work(4, "only 4" * 3)


def test_the_next_save_follows_the_damaged_head(path, saved):
    damage_state(path, saved[5])
    with holdfast.open(path) as store:
        session = store.session("s")
        found = session.recover()
        after = session.save(found.state | {"more": 1})
        assert after.parent == saved[5].id
        assert session.load()["more"] == 1
        other = store.session("s")
        other.recover()
        session.save({"someone": "else"})
        with pytest.raises(holdfast.ConflictError):
            other.save({})


def test_where_nothing_is_whole_that_is_said(path, saved):
    for each in saved[:3]:
        damage_state(path, each)
    with pytest.raises(IntegrityError) as caught:
        recover(path, "#3")
    assert caught.value.code is ErrorCode.NOTHING_INTACT
    assert caught.value.details["damaged"] == [each.id for each in reversed(saved[:3])]
