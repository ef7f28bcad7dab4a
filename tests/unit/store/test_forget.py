"""forget: what must not be anywhere any more, at once and for good."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.store.journal import check_links, kinds_of

import holdfast
import holdfast.reports
from holdfast import BackendError, Keep, NotFoundError
from holdfast.history import removal
from holdfast.store import gc as forgetting

MARK = "jovial-Kiln-84213"
"""In every text that a checkpoint can carry."""


def traces(folder: Path, *secrets: bytes) -> list[str]:
    """The files that have any of it, and where."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += [f"{path.name} at {data.index(each)}" for each in secrets if each in data]
    return found


def pieces(secret: bytes, size: int = 24) -> list[bytes]:
    """Enough of it to recognise, from many places: a chunk may be cut or compressed anywhere."""
    return [secret[at : at + size] for at in range(0, len(secret) - size, 512)]


def write_secrets(store: holdfast.Store, secret: bytes) -> None:
    """A session that has it in its states and its mark in every text, with a history of changes to both."""
    session = store.session("doomed", agent=f"agent {MARK}", project=f"project {MARK}")
    state = {"key": secret, "log": [f"line {n}" for n in range(300)], MARK: [MARK]}
    session.save(
        state, f"message {MARK}", tags=[f"tag-{MARK}"], metadata={"m": MARK}, key=f"{MARK} {secret[:4].hex()}"
    )
    # Versions that are stored as differences to it, and it as the base of others.
    for n in range(5):
        session.save({**state, "key": secret[: 20_000 + n] + bytes([n]) * 50 + secret[20_000 + n :], "n": n})
    document = session.document()
    for n in range(20):
        document["log"].append(f"{MARK} {n}")
        document.save()
    session.annotate("@", message=f"annotated {MARK}", metadata={"note": MARK})
    session.annotate("@", message="harmless now", metadata={"note": None})
    session.tag("@-", f"more-{MARK}")
    session.untag("@-", f"more-{MARK}")
    session.checkpoint()
    session.fork("@~2", f"branch-{MARK}")
    session.rename_branch(f"branch-{MARK}", f"{MARK}-{secret[:4].hex()}")
    session.pin("@~3")
    session.restore("@~4")
    session.delete("@~5")
    session.undo()
    session.prune(Keep(last=4), only=True)


def write_others(store: holdfast.Store, noise: bytes) -> dict[str, object]:
    """Sessions that stay, one of which shares much with the one that goes."""
    session = store.session("kept")
    for n in range(10):
        session.save({"log": [f"line {each}" for each in range(300 + n)], "noise": noise, "n": n})
    document = store.session("kept too").document(default={"log": [f"line {n}" for n in range(300)]})
    for n in range(20):
        document["log"].append(f"plain {n}")
        document.save()
    return {
        f"{name} {each.seq}": store.session(name).load(each)
        for name in ("kept", "kept too")
        for each in store.session(name).log()
    }


def test_after_forgetting_a_session_its_secret_is_in_no_file_and_the_others_load(tmp_path):
    secret, noise = os.urandom(60_000), os.urandom(40_000)
    folder = tmp_path / "store"
    with holdfast.open(folder) as store:
        write_secrets(store, secret)
        expected = write_others(store, noise)
        write_secrets(store, secret[::-1])
        marks = [MARK.encode(), *pieces(secret), *pieces(secret[::-1])]
        assert traces(folder, *pieces(secret)), "the secret was never on the disk in a form that can be found"
        assert traces(folder, MARK.encode())

        report = store.forget("doomed")

        assert report.checkpoints >= 50
        assert report.chunks > 0
        # While the store is still open: the log beside the file must not have it either.
        assert traces(folder, *marks) == []
        assert [each.id for each in store.sessions()] == ["kept", "kept too"]
        for name, state in expected.items():
            session, _, seq = name.rpartition(" ")
            assert store.session(session).load(f"#{seq}") == state
        store.session("kept").save({"next": 1})
    assert traces(folder, *marks) == []
    with holdfast.open(folder) as store:
        assert store.gc(keep_days=0).chunks == 0
        assert store.session("kept").load() == {"next": 1}


def test_a_checkpoint_alone_can_be_forgotten_and_its_session_goes_on(tmp_path):
    secret = os.urandom(50_000)
    folder = tmp_path / "store"
    with holdfast.open(folder) as store:
        session = store.session("s")
        session.save({"n": 0})
        bad = session.save({"n": 1, "key": secret}, f"message {MARK}", tags=[MARK], metadata={"m": MARK})
        session.annotate(bad, message=f"other {MARK}")
        session.save({"n": 2, "key": secret[:100]})
        assert traces(folder, secret[10_000:10_030], MARK.encode())

        report = store.forget("s", bad)

        assert report.checkpoints == 1
        assert traces(folder, *pieces(secret[200:]), MARK.encode()) == []
        assert [each.seq for each in session.log()] == [3, 1]
        # What another checkpoint holds too stays with that.
        assert session.load() == {"n": 2, "key": secret[:100]}
        check_links(store, "s")
        assert kinds_of(store, "s") == ["forget"]


def test_a_dry_run_counts_and_changes_nothing(store):
    session = store.session("s")
    for n in range(4):
        session.save({"n": n})
    session.delete("#2")

    assert store.forget("s", dry_run=True) == holdfast.reports.ForgetReport(4, 4)
    assert store.forget("s", "@", "#4", "@-", dry_run=True) == holdfast.reports.ForgetReport(2, 2)
    assert len(session.log()) == 3
    assert kinds_of(store) == ["delete"]


@pytest.mark.parametrize(("name", "refs"), [("t", ()), ("s", ("#9",)), ("s", ("f" * 64,)), ("s", ("nope",))])
def test_what_is_not_there_cannot_be_forgotten_and_nothing_goes(store, name, refs):
    store.session("s").save({})
    with pytest.raises(NotFoundError):
        store.forget(name, *refs)

    assert len(store.find()) == 1


def test_of_several_refs_one_that_names_nothing_stops_all(store):
    session = store.session("s")
    session.save({"n": 0})
    session.save({"n": 1})
    with pytest.raises(NotFoundError):
        store.forget("s", "#1", "#9")

    assert len(session.log()) == 2


def test_a_fork_in_another_session_keeps_the_state_and_nothing_of_the_first_one_else(tmp_path):
    folder = tmp_path / "store"
    with holdfast.open(folder) as store:
        session = store.session(MARK)
        session.save({"n": 0}, MARK)
        copy = session.fork("@", session="copy")
        store.forget(MARK)

        assert copy.load() == {"n": 0}
        assert store.session("copy").load() == {"n": 0}
        assert traces(folder, MARK.encode()) == []


def test_a_reader_of_an_older_moment_is_told_about_and_calling_again_cleans(tmp_path):
    secret = os.urandom(30_000)
    folder = tmp_path / "store"
    with holdfast.open(folder, timeout=0.2) as store, holdfast.open(folder) as other:
        store.session("doomed").save({"key": secret})
        store.session("kept").save({"n": 1})
        with other._backend.reader() as reader:
            assert reader.session("doomed") is not None
            with pytest.raises(BackendError):
                store.forget("doomed")
            assert [each.id for each in store.sessions()] == ["kept"]
        store.session("kept").save({"n": 2})
        store.forget("kept", "#1")

        assert traces(folder, *pieces(secret)) == []


def test_a_writer_that_saves_meanwhile_is_not_lost(store, monkeypatch):
    session = store.session("s")
    session.save({"n": 0})
    session.save({"n": 1})
    remove = removal.remove
    late: list[object] = []

    def slow(*args, **options):
        if not late:
            late.append(store.session("s").save({"n": 2}))
        return remove(*args, **options)

    monkeypatch.setattr(forgetting, "remove", slow)
    store.forget("s", "#2")

    assert [each.seq for each in store.session("s").log()] == [3, 1]
    assert store.session("s").load() == {"n": 2}


def test_another_collection_that_begins_meanwhile_does_not_leave_the_secret(tmp_path, monkeypatch):
    secret = "TOPSECRET-0123456789abcdefghijkl"
    with (
        holdfast.open(tmp_path / "s.db", durability="process") as store,
        holdfast.open(tmp_path / "s.db", durability="process") as other,
    ):
        store.session("s").save({"k": secret})
        begin, begun = store._backend.collection, []

        @contextmanager
        def disturbed(**options):
            with begin(**options) as collection:
                begun.append(1)
                if len(begun) < 3:
                    with other._backend.collection():
                        pass
                yield collection

        monkeypatch.setattr(store._backend, "collection", disturbed)
        assert store.forget("s").chunks == 1
        assert traces(tmp_path, secret.encode()) == []


def test_an_interrupted_one_is_finished_by_calling_it_again(tmp_path, monkeypatch):
    secret = "TOPSECRET-0123456789abcdefghijkl"
    with holdfast.open(tmp_path / "s.db", durability="process") as store:
        store.session("s").save({"k": secret})
        with monkeypatch.context() as patch:
            patch.setattr(store._backend, "scrub", lambda *, dry_run=False: dry_run or 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.forget("s")
        with pytest.raises(holdfast.NotFoundError):
            store.forget("s")
        assert traces(tmp_path, secret.encode()) == []


def test_without_cleaning_rows_and_log_go_at_once_and_bytes_with_the_next_gc(store):
    session = store.session("s")
    states = [{"n": n, "text": f"{n} " * 500} for n in range(4)]
    checkpoints = [session.save(state, key=f"k{n}", tags=["t"]) for n, state in enumerate(states)]
    session.tag("#1", "told")
    chunks = store.stats().chunks

    report = store.forget("s", checkpoints[1], checkpoints[3], clean=False)

    assert report == holdfast.reports.ForgetReport(checkpoints=2, chunks=0)
    assert [each.seq for each in store.find(session="s", tag="t")] == [3, 1]
    assert not session.exists(checkpoints[1])
    assert kinds_of(store) == ["forget"]
    check_links(store)
    assert (store.stats().chunks, store.stats().hidden) == (chunks, 0)
    assert store.gc(keep_days=14).chunks == 2
    assert session.load("#3") == states[2]
    # The key is free again, and the session goes on.
    assert session.save({"n": "new"}, key="k1").seq == 5
