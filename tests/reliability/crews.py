"""Writers in processes of their own, that say what they have done through a pipe, and are told through another to stop.

    crew = Crew()
    crew.start(work)              # forks; work(say, told_to_stop) runs there
    crew.listen()                 # no more forks after this: a thread takes in what they say
    crew.wait_for({"left", "right"}, 100)   # lines from each, from now on; a line begins with the name of its writer
    crew.stop()

A line that somebody said is in the pipe, so that nothing is lost whatever happens to the server meanwhile.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress

PATIENCE = 240.0
"""Seconds until a writer that says nothing counts as stuck. No test waits so long unless it has failed."""


_FAILED = "!"
"""What one who has failed says at once, because the other threads of its process may go on for long."""

Say = Callable[[str], None]
Work = Callable[[Say, Callable[[], bool]], None]


class Crew:
    """Forked writers. Their errors go to standard error, and make `stop` fail."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._counts: Counter[str] = Counter()
        self._ended = self._failed = False
        self._heard, self._saying = os.pipe()
        self._stopping, self._stop = os.pipe()
        self._children: list[int] = []
        self._news = threading.Condition()
        self._listener: threading.Thread | None = None

    def start(self, work: Work) -> int:
        """Have a new process do `work`; its id."""
        assert self._listener is None, "a fork beside threads"
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(self._heard)
                os.close(self._stop)
                work(self._say, self._is_told_to_stop)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        self._children.append(child)
        return child

    def listen(self) -> None:
        """Begin to take in what they say."""
        os.close(self._saying)
        os.close(self._stopping)
        self._listener = threading.Thread(target=self._take_in)
        self._listener.start()

    def wait_for(self, names: Collection[str], lines: int) -> float:
        """Until each of these has said so many lines from now on; when the last one had."""
        with self._news:
            before = Counter({name: self._counts[name] for name in names})
            while silent := [name for name in names if self._counts[name] - before[name] < lines]:
                assert not self._ended, "all writers have ended"
                assert not self._failed, "a writer failed; its error is above"
                so_far = len(self.said)
                self._news.wait(PATIENCE)
                assert len(self.said) != so_far, f"{silent} said nothing for {PATIENCE:g} s"
            return time.monotonic()

    def is_at_work(self) -> bool:
        """Whether any of them is left."""
        return not self._ended

    def stop(self) -> list[str]:
        """Tell them to stop, wait for it, and return all that they said; fails where one of them failed."""
        with suppress(OSError):
            os.close(self._stop)
        return self.wait()

    def wait(self) -> list[str]:
        """Wait until all have ended by themselves."""
        if self._listener is None:
            self.listen()
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in self._children]
        self._children = []
        assert self._listener is not None
        self._listener.join()
        with suppress(OSError):
            os.close(self._stop)
        assert not any(ends), f"a writer failed ({ends}); its error is above"
        return self.said

    def _say(self, text: str) -> None:
        # Shorter than PIPE_BUF, so that lines of several writers do not mix.
        os.write(self._saying, f"{text}\n".encode())

    def _is_told_to_stop(self) -> bool:
        return bool(select.select([self._stopping], [], [], 0)[0])

    def _take_in(self) -> None:
        with os.fdopen(self._heard, encoding="utf-8") as lines:
            for text in lines:
                with self._news:
                    self.said.append(text.rstrip("\n"))
                    self._failed |= text.startswith(_FAILED)
                    self._counts[text.split()[0]] += 1
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


def in_threads(*works: Callable[[], None], say: Say | None = None) -> None:
    """Do all of it at the same time, and raise the first error; the crew hears of it before the others are done."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
            if say is not None:
                traceback.print_exc()
                say(_FAILED)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
