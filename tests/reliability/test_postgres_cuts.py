"""Connections that break while a commit is under way: what came of it is found out, not guessed.

A proxy stands between the store and the server and breaks a connection at a chosen message, either before the server
has got it or after the server has answered and before the answer arrives. Then the server itself ends connections
again and again, at moments that nobody chose.
"""

from __future__ import annotations

import random
import select
import socket
import threading
from contextlib import suppress
from functools import partial

import psycopg
import pytest
from tests.reliability.crews import in_threads

import holdfast
from holdfast import BackendError, ErrorCode

THREADS, SAVES = 6, 60


class Proxy:
    """Hands on what both sides say, until it is told to break a connection at a message of the client."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._order: tuple[list[bytes], str] | None = None
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.cuts = 0
        self._stays = False
        self._away = False

    def cut(self, when: str, *words: bytes, and_stay_away: bool = False) -> None:
        """Break the connection when the client has said all these words: "before" or "after" the server acts on it."""
        with self._lock:
            self._order = (list(words), when)
            self._stays = and_stay_away

    def come_back(self) -> None:
        """Take connections again."""
        self._away = False

    def close(self) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for each in self._threads:
            each.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            if self._away:
                client.close()
                continue
            server = socket.create_connection(self._server)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(client, server))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError):
            while True:
                for one in select.select([client, server], [], [])[0]:
                    said = one.recv(1 << 16)
                    if not said:
                        return
                    when = self._ordered(said) if one is client else None
                    if when == "before":
                        return
                    (server if one is client else client).sendall(said)
                    if when == "after":
                        # The server says nothing before it is done; what it says then, the client does not hear.
                        server.recv(1 << 16)
                        return

    def _ordered(self, said: bytes) -> str | None:
        with self._lock:
            if self._order is None:
                return None
            words, when = self._order
            if words[0] in said:
                del words[0]
            if words:
                return None
            self._order = None
            self._away = self._stays
            self.cuts += 1
            return when


@pytest.fixture
def proxy(postgres):
    proxy = Proxy(postgres.port)
    yield proxy
    proxy.close()


@pytest.fixture
def store(postgres, postgres_url, proxy):
    through = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")
    with holdfast.open(through, timeout=60) as store:
        yield store


def check_whole(store, session, saved):
    """Exactly these checkpoints, each once, in one line."""
    log = store.session(session).log()
    assert [each.id for each in reversed(log)] == saved
    assert [each.seq for each in reversed(log)] == list(range(1, len(saved) + 1))
    assert store.verify().ok


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_save_whose_connection_breaks_is_there_once(store, proxy, when):
    session = store.session("work")
    saved = [session.save({"n": n}).id for n in range(3)]
    # The writer knows what was there last, so that the next message is the commit itself.
    proxy.cut(when, b"")
    saved.append(session.save({"n": 3}).id)
    assert proxy.cuts == 1
    saved.append(session.save({"n": 4}).id)
    check_whole(store, "work", saved)


# The messages of a commit that reads first, up to the one at which the connection breaks. Views end with COMMIT too.
STEPS = [(b"enter",), (b"enter", b"apply"), (b"enter", b"apply", b"COMMIT")]


def name_of(each):
    return each[-1].decode() if isinstance(each, tuple) else getattr(each, "__name__", each)


@pytest.mark.parametrize("words", STEPS, ids=name_of)
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_first_save_of_a_session_is_there_once_wherever_its_connection_breaks(store, proxy, when, words):
    proxy.cut(when, *words)
    session = store.session("work")
    saved = [session.save({"n": 0}).id]
    assert proxy.cuts == 1
    saved.append(session.save({"n": 1}).id)
    check_whole(store, "work", saved)


@pytest.mark.parametrize(
    ("when", "first", "again"),
    [("before", True, 3), ("after", True, 4), ("before", False, 4), ("after", False, 3)],
    ids=["first lost", "first there", "later lost", "later there"],
)
def test_a_save_of_which_nobody_can_tell_is_settled_by_the_next_one(
    postgres, postgres_url, proxy, when, first, again
):
    through = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")
    with holdfast.open(through, timeout=1) as store:
        session = store.session("work")
        steps = [] if first else [session.save({"n": n}, step=n).step for n in range(3)]
        # Of a session that is not known, the commit is the third message of a transaction; else it is the only one.
        proxy.cut(when, *(STEPS[-1] if first else (b"",)), and_stay_away=True)
        with pytest.raises(BackendError) as caught:
            session.save({"n": 3}, step=3)
        assert proxy.cuts == 1
        assert caught.value.code is ErrorCode.SERVER_GONE
        assert caught.value.details["outcome"] == "unknown"
        assert "same Session" in caught.value.hint
        # Nothing more is sent before that is settled.
        with pytest.raises(BackendError, match="cannot be reached"):
            session.save({"n": 3}, step=3)
        proxy.come_back()
        session.save({"n": again}, step=again)
        session.save({"n": 5}, step=5)
        log = session.log()
        steps += [3] if when == "after" or again == 3 else []
        assert [each.step for each in reversed(log)] == [*steps, *([4] if again == 4 else []), 5]
        check_whole(store, "work", [each.id for each in reversed(log)])


def test_a_commit_that_is_held_up_after_its_connection_was_lost_does_not_claim_that_nothing_was_written(
    postgres, postgres_url, proxy
):
    through = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/")
    with holdfast.open(through, timeout=1) as store, psycopg.connect(postgres_url) as other:
        session = store.session("work")
        saved = [session.save({"n": n}).id for n in range(3)]
        # It stands for the commit itself, which the server may still be carrying out.
        other.execute("SELECT 1 FROM holdfast.sessions FOR UPDATE")
        proxy.cut("before", b"")
        with pytest.raises(BackendError) as caught:
            session.save({"n": 3})
        assert proxy.cuts == 1
        assert caught.value.code is ErrorCode.STORE_LOCKED
        assert caught.value.details["outcome"] == "unknown"
        other.rollback()
        saved.append(session.save({"n": 3}).id)
        check_whole(store, "work", saved)


def tag(session):
    session.tag("@", "seen")


def undo(session):
    session.undo()


def fork(session):
    session.fork("@~1", "other")


def restore(session):
    session.restore("@~1")


def looks(store):
    """All that an operation may change."""
    session = store.session("work")
    return (
        [(each.id, each.tags) for each in session.log()],
        [(each.name, each.head) for each in session.branches()],
        [each.kind for each in session.operations(limit=None)],
    )


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        # One statement, where the session is known; else it is read first, in a transaction.
        *((operation, words) for operation in (tag, undo) for words in STEPS),
        *((operation, (b"apply",)) for operation in (tag, undo, fork, restore)),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_operation_whose_connection_breaks_takes_place_once_or_says_that_it_did_not(
    store, proxy, operation, when, words
):
    session = store.session("work")
    for n in range(3):
        session.save({"n": n})
    session.tag("@~1", "first")
    before = looks(store)
    if words != (b"apply",):
        store._backend._known.clear()
    proxy.cut(when, *words)
    try:
        operation(store.session("work"))
    except BackendError as error:
        if error.code is not ErrorCode.SERVER_GONE:
            raise
        assert looks(store) == before
        # As the hint says.
        operation(store.session("work"))
    assert proxy.cuts == 1
    kinds = looks(store)[2]
    assert len(kinds) == len(before[2]) + 1, kinds
    assert looks(store) != before
    assert store.verify().ok


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("words", [b"pg_class", b"CREATE TABLE", b"COMMIT"])
def test_a_store_is_opened_though_the_connection_breaks(postgres, postgres_url, proxy, when, words):
    through = postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/") + "?schema=anew"
    proxy.cut(when, words)
    with holdfast.open(through, timeout=60) as store:
        assert proxy.cuts == 1
        session = store.session("work")
        check_whole(store, "work", [session.save({"n": n}).id for n in range(3)])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("words", [b"EXISTS", b"FROM sessions WHERE id"], ids=["look", "page"])
def test_who_watches_misses_nothing_where_the_connection_breaks(store, proxy, when, words):
    session = store.session("work")
    first = session.save({"n": 0})
    saved = [session.save({"n": n}).id for n in range(1, 4)]
    proxy.cut(when, words)
    assert [each.id for each in store.watch(after=first, timeout=0)] == saved
    assert proxy.cuts == 1


def test_connections_that_the_server_ends_all_the_time_lose_and_double_nothing(postgres_url):
    holdfast.open(postgres_url).close()
    saved: dict[str, list[str]] = {}
    errors: list[BackendError] = []
    done = threading.Event()
    ended = 0

    def write(store, name):
        session = store.session(name)
        saved[name] = []
        while len(saved[name]) < SAVES:
            n = len(saved[name])
            # The first save reads before it writes; such a reading may be told that the server is gone.
            saved[name].append(patiently(lambda n=n: session.save({"n": n, "by": name}, step=n), errors).id)
            if n % 10 == 9:
                patiently(lambda: session.tag("@", "tenth"), errors)

    def cut():
        nonlocal ended
        source = random.Random()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            while not done.is_set():
                # Those that are at work: a commit is under way on most of them.
                ((count,),) = connection.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' "
                    "ORDER BY random() LIMIT 1) AS one"
                ).fetchall()
                ended += count
                done.wait(source.random() * 0.02)

    def write_all():
        try:
            with holdfast.open(postgres_url, timeout=60) as store:
                in_threads(*(partial(write, store, f"writer {each}") for each in range(THREADS)))
        finally:
            done.set()

    in_threads(write_all, cut)
    print(f"{ended} connections were ended, and {len(errors)} calls said so")
    assert ended >= THREADS
    with holdfast.open(postgres_url, create=False) as store:
        for name, ids in saved.items():
            log = store.session(name).log()
            assert [each.id for each in reversed(log)] == ids
            assert [each.step for each in reversed(log)] == list(range(SAVES))
            assert [each.seq for each in reversed(log)] == list(range(1, SAVES + 1))
            assert [each.step for each in reversed(log) if "tenth" in each.tags] == list(range(9, SAVES, 10))
            # An operation that was reported as failed, and done again, is in the log once.
            assert [each.kind for each in store.session(name).operations(limit=None)] == ["tag"] * (
                SAVES // 10
            )
        assert store.verify().ok


def patiently(work, errors):
    """Do it again where it says that the server was gone."""
    while True:
        try:
            return work()
        except BackendError as error:
            if error.code is not ErrorCode.SERVER_GONE:
                raise
            errors.append(error)
