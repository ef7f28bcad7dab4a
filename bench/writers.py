"""Many writers at once on one server: how many saves a second, and how long each takes.

A writer is a thread with sessions of its own, as an agent is; the threads are spread over a few processes. Each session
goes through W1, one save after each step: through all of it, or through a piece that begins with 50 messages and ends
with 150, so that a state has about 100. No two sessions have a message in common. Sessions are begun before the clock
is, each in the thread that goes on with it, with some saves that nobody counts: so everyone has its connections and
prepared statements when the clock starts. What is counted is what was saved while all writers were at work. At the end
every session is loaded and compared.

holdfast has one store in each process, which its threads share. PostgresSaver lets one thread at a time through, so
that each thread gets one to itself with a connection of its own.
"""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
from tests.services.postgres import Server

import holdfast
from bench.contenders.on_postgres import KINDS, OnPostgres, open_saver
from bench.measure import WrongStateError
from bench.servers import log_position, processor_seconds, sizes
from bench.workloads import growing

_UNCOUNTED = 10
"""Saves of each session before the clock starts."""

PIECE = (50, 150)
"""Messages in the state of a session when its writer begins, and when it ends."""

_PROCESSES = 4
_PATIENCE = 600.0


@dataclass(frozen=True)
class Crew:
    """Who writes: so many writers, each with so many sessions one after the other."""

    kind: str
    writers: int
    sessions: int
    seed: int
    first: int
    last: int
    """Messages in the state of each session at the beginning and at the end."""

    @classmethod
    def through(cls, steps: int, kind: str, writers: int, seed: int) -> Crew:
        """One whose sessions go through all of W1 with so many steps."""
        return cls(kind, writers, 1, seed, _UNCOUNTED, steps)

    @property
    def processes(self) -> int:
        """As few as one for each writer, and no more than a few."""
        return min(_PROCESSES, self.writers)

    @property
    def saves(self) -> int:
        """All that are made while the clock runs."""
        return self.writers * self.sessions * (self.last - self.first)


def run(server: Server, crew: Crew) -> dict[str, Any]:
    """The figures of one crew, in a new database that is removed afterwards."""
    url = server.fresh_database()
    if crew.kind in ("saver", "delta"):
        saver = open_saver(url)
        saver.setup()
        saver.conn.close()
    else:
        holdfast.open(url).close()
    # Everyone begins with the log at the same point: a page is written whole to it once after this.
    server.execute("CHECKPOINT")
    try:
        return _measured(server, crew, url)
    finally:
        server.drop_database(url)


def _measured(server: Server, crew: Crew, url: str) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(crew.processes + 1)
    answers = context.Queue()
    shares = [list(range(crew.writers))[part :: crew.processes] for part in range(crew.processes)]
    processes = [
        context.Process(target=_work, args=(crew, url, share, barrier, answers), daemon=True)
        for share in shares
    ]
    for process in processes:
        process.start()
    barrier.wait(_PATIENCE)
    size, log, server_cpu = sizes(url), _log(server), processor_seconds(server.pid)
    barrier.wait(_PATIENCE)
    reports = [answers.get(timeout=_PATIENCE) for _ in processes]
    server_cpu, log = processor_seconds(server.pid) - server_cpu, _log(server) - log
    barrier.wait(_PATIENCE)
    for process in processes:
        process.join(_PATIENCE)
        if process.exitcode:
            raise WrongStateError(f"a process of {crew.kind} ended with {process.exitcode}")
    figures = _summary([each for report in reports for each in report["writers"]])
    grown = {name: (bytes_ - size[name]) / crew.saves for name, bytes_ in sizes(url).items()}
    return figures | {
        "writers": crew.writers,
        "saves": crew.saves,
        "bytes_per_save": grown | {"log": log / crew.saves},
        "cpu_ms_per_save": {
            "clients": sum(report["cpu"] for report in reports) / crew.saves * 1e3,
            "server": server_cpu / crew.saves * 1e3,
        },
    }


def _log(server: Server) -> int:
    with psycopg.connect(server.url(by_socket=True)) as connection:
        return log_position(connection)


def _work(crew: Crew, url: str, share: list[int], barrier: Barrier, answers: Any) -> None:
    try:
        _work_in_step(crew, url, share, barrier, answers)
    except BaseException:
        # Nobody is to wait for a process that will not come.
        barrier.abort()
        raise


def _work_in_step(crew: Crew, url: str, share: list[int], barrier: Barrier, answers: Any) -> None:
    """One process: prepare, wait for the others, write, tell, wait until all have told, compare."""
    store = holdfast.open(url) if crew.kind in ("holdfast", "document") else None
    prepared: list[list[tuple[OnPostgres, Any]]] = [[] for _ in share]
    samples: list[list[tuple[float, float]]] = [[] for _ in share]
    begun, go = threading.Barrier(len(share) + 1), threading.Event()

    def work(writer: int, sessions: list[tuple[OnPostgres, Any]], into: list[tuple[float, float]]) -> None:
        sessions += _prepared(crew, url, writer, store)
        begun.wait(_PATIENCE)
        go.wait(_PATIENCE)
        _write(sessions, crew.first, crew.last, into)

    threads = [
        threading.Thread(target=work, args=each) for each in zip(share, prepared, samples, strict=True)
    ]
    for thread in threads:
        thread.start()
    begun.wait(_PATIENCE)
    # As in measure.py: what was prepared for all sessions is not to be walked through in the middle of a save.
    gc.collect()
    gc.freeze()
    barrier.wait(_PATIENCE)
    barrier.wait(_PATIENCE)
    cpu = time.process_time()
    go.set()
    for thread in threads:
        thread.join()
    answers.put({"writers": samples, "cpu": time.process_time() - cpu})
    # Comparing takes processor time that belongs to nobody's figures.
    barrier.wait(_PATIENCE)
    for sessions in prepared:
        for contender, workload in sessions:
            _compare(contender, workload, crew.last)


def _prepared(
    crew: Crew, url: str, writer: int, store: holdfast.Store | None
) -> list[tuple[OnPostgres, Any]]:
    opened = open_saver(url) if store is None else store
    sessions = []
    for number in range(crew.sessions):
        workload = growing(crew.last, crew.seed + writer * 1_000 + number)
        contender = KINDS[crew.kind](url, session=f"writer-{writer}-{number}", opened=opened)
        contender.start(workload.state_after(crew.first - _UNCOUNTED))
        sessions.append((contender, workload))
    _write(sessions, crew.first - _UNCOUNTED, crew.first, [])
    return sessions


def _write(
    sessions: list[tuple[OnPostgres, Any]], first: int, last: int, into: list[tuple[float, float]]
) -> None:
    for contender, workload in sessions:
        for step in range(first + 1, last + 1):
            contender.apply(workload.changes(step))
            began = time.monotonic()
            contender.save()
            into.append((began, time.monotonic()))


def _compare(contender: OnPostgres, workload: Any, last: int) -> None:
    contender.given = None
    reader = contender.reader()
    if reader.load(contender.names[-1]) != workload.state_after(last):
        raise WrongStateError(f"{contender.label} gave back another state for {contender.session}")
    reader.close()


def _summary(writers: list[list[tuple[float, float]]]) -> dict[str, Any]:
    """Saves a second while all were at work, and what each took in ms. The clock is the same in all processes."""
    began = max(each[0][0] for each in writers)
    ended = min(each[-1][1] for each in writers)
    inside = sum(began <= end <= ended for each in writers for _, end in each)
    took = sorted(end - start for each in writers for start, end in each)
    return {
        "per_second": inside / (ended - began),
        "latency": {
            name: took[min(len(took) - 1, int(len(took) * part))] * 1e3
            for name, part in (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
        },
    }
