"""One wrong bit anywhere in the file: every answer is right or an error, and none is wrong or shorter in silence.

`verify` then names every checkpoint that does not load, recovery serves the newest one that is whole, and a repair
keeps all that is.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

import holdfast
from holdfast import HoldfastError, IntegrityError
from holdfast.backends.sqlite import SqliteBackend
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.tree.state import decode_state
from holdfast.storage.records import Query

FLIPS = 240
PARTS = 2
"""The flips are divided among so many tests, which can run at the same time."""


def fill(path):
    """A store with a bit of everything: sessions, branches, tags, edits, deletions, large and small states."""
    source = random.Random(3)
    with holdfast.open(path, durability="process", app_version="1") as store:
        for name, agent in [("research", "scout"), ("writing", "poet"), ("empty-handed", None)]:
            session = store.session(name, agent=agent, project="acme")
            for step in range(12):
                session.save(
                    {
                        "step": step,
                        # Grows like a conversation, so that chunks are shared and stored as differences.
                        "notes": [f"note {number}: {name} went on" for number in range(step * 40)],
                        "noise": source.randbytes(source.choice([5, 900, 9000])),
                    },
                    f"step {step} of {name}",
                    tags=["even"] if step % 2 == 0 else [],
                    step=step,
                    metadata={"model": "m1", "run": {"n": step}},
                    tokens=step * 10,
                    key=f"{name} {step}",
                )
            session.annotate("@~3", message="said better", metadata={"reviewed": True})
            session.tag("@~2", "golden")
            session.delete("@~5")
            store.session(name).save({"another": "idea"}, "a fork", parent="@~4")
            store.session(name).delete("@")


def questions(path):
    """Everything that can be asked of the store, each question by its name.

    The heads of branches have no public listing yet, so the backend is asked for them.
    """
    # As everybody opens a store: one that cannot be recognized must not be made anew either.
    with holdfast.open(path) as store:
        asked: dict[str, Callable[[], object]] = {
            "sessions": lambda: [
                (each.id, each.agent, each.project, each.created_at, each.saves) for each in store.sessions()
            ],
            "projects": store.projects,
            "find": lambda: records(store.find()),
            "find by tag": lambda: records(store.find(tag="even")),
            "find by agent": lambda: records(store.find(agent="poet")),
            "find by project": lambda: records(store.find(project="acme", limit=7)),
            "find by step": lambda: records(store.find(session="research", step=4)),
            "find by key": lambda: records(store.find(key="writing 3")),
            "find by metadata": lambda: records(store.find(metadata={"run": {"n": 5}})),
        }
        for name in NAMES:
            for branch in ("main", "main-1"):
                session = store.session(name, branch=branch)
                asked[f"log {name} {branch}"] = partial(log_of, session)
                asked[f"load {name} {branch}"] = session.load
                for ref in ("@~2", "@~7", "tag:golden", "#3"):
                    asked[f"load {name} {branch} {ref}"] = partial(session.load, ref)
            for seq in range(1, 14):
                asked[f"load {name} #{seq}"] = partial(store.session(name).load, f"#{seq}")
        yield from asked.items()
    backend = SqliteBackend.open(path, durability="process", create=False, timeout=10.0)
    try:
        for name in NAMES:
            yield f"branches {name}", partial(read, backend, "branches", name)
            yield (
                f"operations {name}",
                partial(read, backend, "operations", name),
            )
    finally:
        backend.close()


NAMES = ("research", "writing", "empty-handed")


def records(checkpoints):
    return [each.to_dict() for each in checkpoints]


def log_of(session):
    return records(session.log())


def read(backend, question, name):
    with backend.reader() as reader:
        return list(getattr(reader, question)(name))


def ask_everything(path):
    """The answers by name; a HoldfastError is an answer too, as its code."""
    answers: dict[str, tuple[str, object]] = {}
    asking = questions(path)
    while True:
        try:
            name, question = next(asking)
        except StopIteration:
            return answers
        except HoldfastError as error:
            # The store could not even be opened, which says more than any single answer.
            answers["opening"] = ("error", str(error.code))
            return answers
        try:
            answers[name] = ("answer", question())
        except HoldfastError as error:
            answers[name] = ("error", str(error.code))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A file with everything in it, and the true answers."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    fill(path)
    assert not path.with_name("store.db-wal").exists(), "closing moves the log into the file"
    return path, ask_everything(shutil.copy(path, path.with_name("copy.db")))


def test_the_questions_cover_the_store(sound):
    _, truth = sound
    errors = {name: answer for name, answer in truth.items() if answer[0] == "error"}
    # Refs that name nothing in a sound store: those of deleted checkpoints, and the branch that was deleted again.
    assert all(code == "checkpoint-missing" or "main-1" in name for name, (_, code) in errors.items()), errors
    assert len(truth) - len(errors) > 60
    assert len(truth["find"][1]) == 33


@pytest.mark.parametrize("part", range(PARTS))
def test_no_flipped_bit_changes_an_answer_in_silence(sound, memory_folder, part):
    path, truth = sound
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    content = path.read_bytes()
    outcomes: Counter[str] = Counter()
    for _ in range(FLIPS // PARTS):
        bit = source.randrange(len(content) * 8)
        spoiled = bytearray(content)
        spoiled[bit // 8] ^= 1 << (bit % 8)
        victim = memory_folder / "victim.db"
        victim.write_bytes(spoiled)
        outcomes[judge(truth, ask_everything(victim), bit)] += 1
        for each in memory_folder.glob("victim.db*"):
            each.unlink()
    print(dict(outcomes))
    # Most of the file is in use, so most flips must be noticed.
    assert outcomes["noticed"] > outcomes.total() // 2


def judge(truth, answers, bit):
    """Each answer must be the true one, or an error that says that something is wrong with the store."""
    noticed = False
    if "opening" in answers:
        return "noticed"
    for name, true_answer in truth.items():
        if answers[name] == true_answer:
            continue
        kind, code = answers[name]
        where = f"bit {bit % 8} of byte {bit // 8}"
        assert kind == "error", f"{where}: {name} answered {code!r:.300} instead of {true_answer[1]!r:.300}"
        assert code not in LIES, f"{where}: {name} says {code}, as if it had never been there"
        noticed = True
    return "noticed" if noticed else "harmless"


# "It is not there" about something that is there is a wrong answer, in the form of an error.
LIES = {
    "checkpoint-missing",
    "session-missing",
    "branch-missing",
    "history-too-short",
    "ref-ambiguous",
    "store-missing",
}


BRANCHES = [("growing", "main"), ("growing", "try"), ("various", "main"), ("various", "main-1")]


def fill_two(path):
    """Two sessions with all that a store can hold: streams, differences, large states, forks, edits, a log."""
    source = random.Random(5)
    with holdfast.open(path, durability="process", app_version="1") as store:
        growing = store.session("growing", agent="scout", project="acme")
        messages: list[dict[str, str]] = []
        for step in range(10):
            messages += [{"role": "user", "text": source.randbytes(90).hex()} for _ in range(10)]
            growing.save({"messages": messages, "step": step}, f"step {step}", step=step, key=f"k{step}")
        growing.fork("@~3", "try").save({"messages": messages[:50], "other": True}, "another way")
        growing.pin("@~2")
        growing.restore("@~4")
        growing.undo()
        various = store.session("various", project="acme")
        for step in range(7):
            noise = source.randbytes(source.choice([5, 900, 30_000]))
            various.save({"step": step, "noise": noise}, tags=["even"] if step % 2 == 0 else [])
        various.annotate("@~3", message="said better", metadata={"reviewed": True})
        various.delete("@~5")
        store.session("various").save({"another": "idea"}, "a fork", parent="@~4")


def rows_of(store):
    """Every row of a store, removed ones too, with its state."""
    with store._backend.reader() as reader:
        rows = reader.checkpoints(Query(include_hidden=True))
        return {row.id.hex(): (row, decode_state(row.root, reader.chunks, GLOBAL)) for row in rows}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file, every checkpoint of it with its state, and the ids of each branch from its head back."""
    path = tmp_path_factory.mktemp("whole") / "store.db"
    fill_two(path)
    with holdfast.open(shutil.copy(path, path.with_name("copy.db"))) as store:
        assert store.verify().ok
        lines = {
            (name, branch): [each.id for each in store.session(name, branch=branch).log()]
            for name, branch in BRANCHES
        }
        return path.read_bytes(), rows_of(store), lines


def test_the_store_that_is_damaged_has_everything(whole):
    content, truth, lines = whole
    assert len(content) > 40 * 4096
    assert any(row.hidden for row, _ in truth.values())
    assert all(len(line) > 2 for line in lines.values())


def flipped(content, source):
    """One wrong bit, and where."""
    bit = source.randrange(len(content) * 8)
    spoiled = bytearray(content)
    spoiled[bit // 8] ^= 1 << (bit % 8)
    return spoiled, f"bit {bit % 8} of byte {bit // 8}"


def destroyed(content, source):
    """One page of noise, and where; not the first, which a repair needs."""
    at = source.randrange(1, len(content) // 4096) * 4096
    return content[:at] + source.randbytes(4096) + content[at + 4096 :], f"page {at // 4096 + 1}"


@pytest.mark.parametrize(("spoil", "times"), [(flipped, FLIPS // 2), (destroyed, 60)])
def test_every_damaged_checkpoint_is_named_and_every_whole_one_is_saved(whole, memory_folder, spoil, times):
    content, truth, lines = whole
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(times):
        spoiled, where = spoil(content, source)
        folder = memory_folder / "victim"
        folder.mkdir()
        path = folder / "store.db"
        path.write_bytes(spoiled)
        with holdfast.open(path, damaged=True) as store:
            outcomes[damage_is_handled(store, truth, lines, where)] += 1
        shutil.rmtree(folder)
    print(dict(outcomes))
    assert outcomes["repaired, with losses"] > outcomes.total() // 4
    assert outcomes["repaired, without any loss"] > outcomes.total() // 4
    # Only where SQLite cannot make sense of the first hundred bytes.
    assert outcomes["beyond repair"] < outcomes.total() // 20


def damage_is_handled(store, truth, lines, where):
    report = store.verify()
    assert report.problems, f"{where}: nothing was noticed"
    named = {each.id: each for each in report.damaged}
    troubled = {each.session for each in report.problems if each.kind in ("session", "branch", "log")}
    for name, (row, state) in truth.items():
        if not loads(store, row, state):
            assert name in named or row.session in troubled, f"{where}: {row.session} #{row.seq} is not named"
    lost = {name for name, each in named.items() if each.lost}
    assert lost <= truth.keys(), f"{where}: lost are {lost - truth.keys()}, which were never there"
    unlinked = (
        rows_without_links(store, truth)
        if any(named[name].why.startswith("its row") for name in lost)
        else set()
    )
    for (session, branch), line in lines.items():
        if lost.issuperset(line):
            # One chunk can carry a whole session: those that are stored as the difference to it are lost with it.
            with pytest.raises(IntegrityError) as caught:
                store.session(session, branch=branch).recover()
            assert caught.value.code == "nothing-intact", where
            continue
        found = store.session(session, branch=branch).recover()
        assert found.state == truth[found.checkpoint.id][1], where
        newest = next(place for place, name in enumerate(line) if name not in lost)
        if unlinked.isdisjoint(line[:newest]):
            assert found.checkpoint.id == line[newest], f"{where}: {session} {branch} has a newer one"
            assert [each.id for each in found.damaged] == line[:newest], where
        else:
            assert found.checkpoint.seq < truth[line[0]][0].seq, where
            assert found.damaged, where
    return repair_is_right(store, truth, lines, lost, unlinked, where)


def rows_without_links(store, truth):
    """Lost rows of which nobody knows any more what they followed: recovery and repair have to go by number there."""
    with store._backend.inspect() as seen:
        return {
            row.id.hex()
            for row in seen.lost()
            if row.id is not None and not any(each.hex() in truth for each in row.followed)
        }


def loads(store, row, state):
    try:
        if row.hidden:
            with store._backend.reader() as reader:
                found = reader.checkpoint(row.id)
                assert found == row
                return decode_state(row.root, reader.chunks, GLOBAL) == state
        loaded = store.session(row.session, branch=row.branch).load(row.id.hex())
    except IntegrityError:
        return False
    assert loaded == state, f"{row.session} #{row.seq} was served with another state"
    return True


def repair_is_right(store, truth, lines, lost, unlinked, where):
    try:
        report = store.repair()
    except IntegrityError as error:
        if "first page" not in str(error):
            raise
        return "beyond repair"
    assert {each.id for each in report.lost} == lost, where
    kept = rows_of(store)
    assert kept.keys() == truth.keys() - lost, where
    for name, (row, state) in kept.items():
        was, true_state = truth[name]
        assert state == true_state, f"{where}: {row.session} #{row.seq}"
        assert row._replace(prev=was.prev, skipped=was.skipped) == was, f"{where}: {row.session} #{row.seq}"
    for (session, branch), line in lines.items():
        if lost.issuperset(line):
            assert branch not in {each.name for each in store.session(session).branches()}, where
            continue
        left = [each.id for each in store.session(session, branch=branch).log()]
        if unlinked.isdisjoint(line):
            assert left == [name for name in line if name not in lost], f"{where}: {session} {branch}"
    again = store.verify()
    assert again.ok, f"{where}: {again.problems[:3]}"
    # A branch of which nothing was left is gone; where there is another, that one goes on.
    left = [each.name for each in store.session("growing").branches()]
    going_on = store.session("growing", branch="main" if "main" in left or not left else left[0])
    going_on.save({"it": "goes on"})
    assert going_on.load() == {"it": "goes on"}
    return "repaired, with losses" if lost else "repaired, without any loss"
