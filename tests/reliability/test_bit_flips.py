"""One wrong bit anywhere in the file: every answer is right or an error, and none is wrong or shorter in silence."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

import holdfast
from holdfast import HoldfastError
from holdfast.backends.sqlite import SqliteBackend

FLIPS = 500


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


def test_no_flipped_bit_changes_an_answer_in_silence(sound, tmp_path):
    path, truth = sound
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    content = path.read_bytes()
    outcomes: Counter[str] = Counter()
    for _ in range(FLIPS):
        bit = source.randrange(len(content) * 8)
        spoiled = bytearray(content)
        spoiled[bit // 8] ^= 1 << (bit % 8)
        victim = tmp_path / "victim.db"
        victim.write_bytes(spoiled)
        outcomes[judge(truth, ask_everything(victim), bit)] += 1
        for each in tmp_path.glob("victim.db*"):
            each.unlink()
    print(dict(outcomes))
    # Most of the file is in use, so most flips must be noticed.
    assert outcomes["noticed"] > FLIPS // 2


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
