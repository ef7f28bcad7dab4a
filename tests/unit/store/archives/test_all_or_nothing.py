"""An import of several sessions: where one of them cannot be written, nothing of the others is left."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import BackendError, ConflictError, ErrorCode, Keep, Store
from holdfast.errors import InvalidInputError
from holdfast.storage.ports import Backend
from holdfast.store.archives import bringing
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed


def content(backend: Backend) -> list[object]:
    """All that there is to see, but for sessions in which there is nothing."""
    with backend.reader() as reader:
        found: list[object] = []
        for session in reader.sessions():
            branches = reader.branches(session.id)
            shown = Store(backend).find(session=session.id)
            rows = [each._row._replace(position=0, seq=0) for each in shown]
            if rows or branches:
                found += [session._replace(last_seq=0), *branches, *sorted(rows)]
        return found


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request, tmp_path):
    places = {"memory": "memory:", "sqlite": tmp_path / "s.db"}
    place = places.get(request.param) or request.getfixturevalue("postgres_url")
    with holdfast.open(place, durability="process") as made:
        yield made._backend


@pytest.fixture
def folder(tmp_path):
    """Three sessions; of the second the store has a part already, and not the first one."""
    made = tmp_path / "folder"
    made.mkdir()
    with holdfast.open("memory:") as source:
        for name in ("a", "b", "c"):
            session = source.session(name, agent="scout")
            for step in range(4):
                session.save(
                    {"step": step, "noise": [f"{name}{step}{each}" for each in range(50)]}, key=f"{step}"
                )
            session.fork("#2", "idea").save({"idea": name})
            session.export(path=made / f"{name}.jsonl", session=True)
        source.session("b").export(["#3", "#2"], tmp_path / "part.jsonl")
    return made


def filled(backend: Backend, folder) -> None:
    with_part = Store(backend)
    with_part.import_(folder.parent / "part.jsonl")
    with_part.session("b").tag("@", "mine")
    with_part.session("mine").save({"mine": 1})


@pytest.mark.parametrize("hook", ["before", "after"])
@pytest.mark.parametrize("ahead", [False, True])
def test_a_store_that_fails_at_any_write_is_left_as_it_was(backend, folder, monkeypatch, hook, ahead):
    if ahead:
        monkeypatch.setattr(bringing, "_AT_ONCE", 300)
        monkeypatch.setattr(bringing, "_PART", 300)
    filled(backend, folder)
    faulty = FaultyBackend(backend)
    store = Store(faulty)
    before = content(backend)
    failures: list[BackendError] = []
    for number in range(1, 100):
        broken = failing(io_failed())
        faulty.plan(Fault("adopt", number, **{hook: broken}))
        try:
            store.import_(folder)
        except BackendError as error:
            failures.append(error)
            assert content(backend) == before
            assert Store(backend).verify().ok
        else:
            break
    # Where only the reply was lost, the rows are found to be there; chunks that went ahead are not asked for again.
    assert len(failures) >= (3 if hook == "before" else 0)
    assert all("imported" not in error.details for error in failures)
    assert {each.id for each in store.sessions()} == {"a", "b", "c", "mine"}
    assert store.import_(folder).checkpoints == 0
    assert store.verify().ok


def test_what_came_before_is_taken_back_where_a_key_is_taken_in_the_last_moment(backend, folder, monkeypatch):
    filled(backend, folder)
    store = Store(backend)
    before = content(backend)
    write = bringing.Delivery._write

    def late(self):
        if self.plan.told.id == "c":
            store.session("c", agent="scout").save({"other": 1}, key="2")
        write(self)

    monkeypatch.setattr(bringing.Delivery, "_write", late)
    with pytest.raises(ConflictError) as caught:
        store.import_(folder)
    assert caught.value.code is ErrorCode.KEY_TAKEN
    store.forget("c", clean=False)
    assert content(backend) == before
    assert store.verify().ok


def test_an_interruption_takes_everything_back_too(backend, folder, monkeypatch):
    filled(backend, folder)
    before = content(backend)
    write = bringing.Delivery._write

    def interrupted(self):
        write(self)
        if self.plan.told.id == "b":
            raise KeyboardInterrupt

    monkeypatch.setattr(bringing.Delivery, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Store(backend).import_(folder)
    assert content(backend) == before


def test_what_somebody_has_built_on_stays_and_is_named(backend, folder, monkeypatch):
    filled(backend, folder)
    store = Store(backend)
    write = bringing.Delivery._write

    def built_on(self):
        if self.plan.told.id == "c":
            session = store.session("a")
            session.load()
            session.save({"built": "on it"})
            raise io_failed()
        write(self)

    monkeypatch.setattr(bringing.Delivery, "_write", built_on)
    with pytest.raises(BackendError) as caught:
        store.import_(folder)
    assert caught.value.details["imported"] == ["a"]
    assert "run the import again" in caught.value.hint
    assert store.session("a").load() == {"built": "on it"}
    assert len(store.find(session="a")) == 7
    # Of the second, only what was there before.
    assert len(store.find(session="b")) == 2
    assert store.verify().ok
    monkeypatch.setattr(bringing.Delivery, "_write", write)
    store.import_(folder)
    assert len(store.find()) == 7 + 6 + 6 + 1


def test_a_session_of_somebody_else_refuses_all_of_them(backend, folder):
    store = Store(backend)
    store.session("c", agent="another").save({"n": 1})
    before = content(backend)
    with pytest.raises(InvalidInputError):
        store.import_(folder)
    assert content(backend) == before
    assert len(store.sessions()) == 1


def test_an_imported_history_takes_no_more_room_than_a_copied_one(tmp_path):
    messages: list[dict[str, object]] = []
    with (
        holdfast.open(tmp_path / "source.db", durability="process") as source,
        holdfast.open(tmp_path / "copied.db", durability="process") as copied,
        holdfast.open(tmp_path / "imported.db", durability="process") as imported,
    ):
        session = source.session("s")
        for step in range(60):
            messages.append({"id": step, "text": " ".join(f"{step * each % 997}" for each in range(60))})
            session.save({"messages": messages, "step": step})
        session.export(path=tmp_path / "all.jsonl", session=True)
        source.copy_to(copied)
        imported.import_(tmp_path / "all.jsonl")
        assert imported.stats().stored_bytes < 1.2 * copied.stats().stored_bytes
        imported.session("s").prune(Keep(last=1))
        assert imported.session("s").load() == session.load()


def test_what_another_process_imported_meanwhile_is_not_taken_back(backend, folder, monkeypatch):
    filled(backend, folder)
    write = bringing.Delivery._write
    turns: list[str] = []

    def late(self):
        turns.append(self.plan.told.id)
        if turns == ["a", "b"]:
            # The session is there already: what comes of it is the same to the last digit, but for the time.
            assert Store(backend).import_(folder / "b.jsonl").checkpoints > 0
            self._plan_anew = interrupted
        write(self)

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(bringing.Delivery, "_write", late)
    with pytest.raises(KeyboardInterrupt):
        Store(backend).import_(folder)
    assert turns == ["a", "b", "b"]
    assert not list(Store(backend).find(session="a"))
    assert len(list(Store(backend).find(session="b"))) == 6
    assert Store(backend).verify().ok


def test_where_only_the_reply_of_another_import_could_be_ours_nothing_is_claimed(backend, folder):
    filled(backend, folder)
    faulty = FaultyBackend(backend)

    def beaten(*_):
        Store(backend).import_(folder / "a.jsonl")
        raise io_failed()

    faulty.plan(Fault("adopt", 1, before=beaten))
    with pytest.raises(BackendError):
        Store(faulty).import_(folder)
    assert list(Store(backend).find(session="a"))
    assert not list(Store(backend).find(session="c"))


def test_an_import_after_one_that_was_taken_back_is_as_the_first(backend, folder, monkeypatch):
    with holdfast.open("memory:") as source:
        session = source.session("z", agent="scout")
        session.save({"n": 1})
        session.fork("@", "work").switch("work", remember=True)
        session.export(path=folder / "z.jsonl", session=True)
    wanted = holdfast.open("memory:")
    wanted.import_(folder)
    write = bringing.Delivery._write

    def interrupted(self):
        write(self)
        if self.plan.told.id == "z":
            raise KeyboardInterrupt

    store = Store(backend)
    monkeypatch.setattr(bringing.Delivery, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.import_(folder)
    monkeypatch.undo()
    assert {each.status for each in store.import_(folder).sessions} == {"new"}
    with backend.reader() as mine, wanted._backend.reader() as theirs:
        assert [(each.id, each.last_seq, each.current) for each in mine.sessions()] == [
            (each.id, each.last_seq, each.current) for each in theirs.sessions()
        ]
    wanted.close()


def test_what_was_written_is_not_held_in_memory_until_the_end(backend, folder, monkeypatch):
    held = []
    write = bringing.Delivery._write

    def looked(self):
        write(self)
        held.append(self._tried.chunks)

    monkeypatch.setattr(bringing.Delivery, "_write", looked)
    Store(backend).import_(folder)
    assert held == [(), (), ()]


@pytest.mark.parametrize(
    ("ahead", "failing_write"),
    [(False, 1), (False, 2), (False, 3), (True, 1), (True, 3), (True, 5)],
)
def test_what_is_left_of_a_new_session_is_nobodys(backend, folder, monkeypatch, ahead, failing_write):
    if ahead:
        # All that a session has goes in one part.
        monkeypatch.setattr(bringing, "_AT_ONCE", 300)
    faulty = FaultyBackend(backend)
    faulty.plan(Fault("adopt", failing_write, before=failing(io_failed())))
    with pytest.raises(BackendError):
        Store(faulty).import_(folder)
    store = Store(backend)
    left = store.sessions()
    assert len(left) == min(failing_write - 1, 3)
    assert {(each.agent, each.project, each.saves) for each in left} <= {(None, None, 0)}
    assert not store.sessions(agent="scout")
    # Who comes first has it, and an import that is run again brings the rest.
    store.session("a", agent="another").save({"mine": 1})
    store.import_(folder / "b.jsonl")
    assert [each.id for each in store.sessions(agent="scout")] == ["b"]
    assert store.verify().ok


def test_one_session_that_cannot_be_written_leaves_nothing(backend, folder):
    faulty = FaultyBackend(backend)
    faulty.plan(Fault("adopt", 1, before=failing(io_failed())))
    with pytest.raises(BackendError):
        Store(faulty).import_(folder / "a.jsonl")
    assert Store(backend).sessions() == []


def test_an_owner_that_a_session_had_before_is_its_owner_after_it_was_taken_back(
    backend, folder, monkeypatch
):
    store = Store(backend)
    store.session("a", agent="scout", project="acme").save({"mine": 1})
    store.session("b").save({"mine": 1})
    before = store.sessions()
    write = bringing.Delivery._write

    def interrupted(self):
        write(self)
        if self.plan.told.id == "b":
            raise KeyboardInterrupt

    monkeypatch.setattr(bringing.Delivery, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.import_(folder)
    assert store.sessions() == before


def test_what_is_left_of_a_new_session_can_be_forgotten(backend, folder, monkeypatch):
    write = bringing.Delivery._write

    def interrupted(self):
        write(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(bringing.Delivery, "_write", interrupted)
    store = Store(backend)
    with pytest.raises(KeyboardInterrupt):
        store.import_(folder / "a.jsonl")
    assert [(each.id, each.agent, each.saves) for each in store.sessions()] == [("a", None, 0)]
    store.forget("a", clean=False)
    assert store.sessions() == []
