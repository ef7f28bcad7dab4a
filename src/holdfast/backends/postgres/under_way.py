"""Chunks that the server is asked for, some questions after the other, without waiting for the answers in between.

Who puts a state together asks for the nodes that name further chunks and, behind them, for chunks that are mostly data.
When the nodes are there it asks for what they name, while the server is still at the second answer. So the server
always has something to do, and what has come is expanded meanwhile (`objects/joining.py`).

Answers come in the order of the questions. Each is taken from the connection when somebody looks at it, or at a later
one, or when something else is asked. Who goes through it has each chunk as it comes; who looks for one that has not
come waits for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from holdfast.backends.chunk_rows import ReadChunks, plain_of
from holdfast.backends.postgres.chunks import ChunkQuestion
from holdfast.backends.postgres.connecting import Connected
from holdfast.backends.rows import Row
from holdfast.errors import HoldfastError
from holdfast.storage.records import ChunkHash

T = TypeVar("T")


class _Ask(Protocol):
    def __call__(self, question: Callable[[Connected], T], /) -> T: ...


_MOST: Final = 2
"""Questions in a row, as many as a load asks. What was asked for and not looked at is held in memory."""


class ChunksUnderWay:
    """The questions of one view, in their order.

    Args:
        ask: Asks something on the connection of the view.
    """

    __slots__ = ("_ask", "_failure", "_line")

    def __init__(self, ask: _Ask) -> None:
        self._ask = ask
        self._failure: HoldfastError | None = None
        # By the questions: two mappings are equal where their chunks are.
        self._line: dict[ChunkQuestion, AskedChunks] = {}

    def ask(self, wanted: Sequence[ChunkHash]) -> AskedChunks:
        """Ask for chunks, and do not wait for them."""
        while len(self._line) >= _MOST:
            self._settle_first()
        asked = AskedChunks(ChunkQuestion(wanted), self)
        # Before it is sent: whatever comes in between, its turn is not given to another.
        self._line[asked.question] = asked
        self._ask(asked.question.send)
        return asked

    def receive(self) -> None:
        """Take what is under way from the connection: something else is going to be asked there.

        Raises:
            HoldfastError: One of the questions was refused, and with it all that would be asked in this view.
        """
        for each in self._line.values():
            self._receive(each)
        if self._failure is not None:
            raise self._failure

    def settle(self) -> None:
        """Have all that was asked for: the connection goes to somebody else."""
        while self._line:
            self._settle_first()

    def found(self, asked: AskedChunks) -> Mapping[ChunkHash, bytes]:
        """What the server said to one of the questions.

        Raises:
            HoldfastError: It said nothing.
        """
        try:
            self._receive_before(asked)
            self._receive(asked)
            return ReadChunks(self._chains(asked))
        finally:
            # Whatever came of it: nobody asks for that again.
            self._line.pop(asked.question, None)

    def some_of(self, asked: AskedChunks) -> list[Row]:
        """Rows of an answer that nobody has taken yet; none where those were all, or it was refused."""
        if not asked.is_received:
            self._receive_before(asked)
        return self._receive_some(asked)

    def _settle_first(self) -> None:
        next(iter(self._line.values())).settle()

    def _chains(self, asked: AskedChunks) -> dict[ChunkHash, Sequence[Row]]:
        if asked.error is not None:
            raise asked.error
        chains, left = asked.question.chains()
        if left:
            self.receive()
            more = ChunkQuestion(left, with_bases=True)
            self._ask(more.ask)
            chains.update(more.chains()[0])
        return chains

    def _receive_before(self, asked: AskedChunks) -> None:
        """Take what is in front of one that is in the line."""
        for each in self._line.values():
            if each is asked:
                break
            self._receive(each)

    def _receive(self, asked: AskedChunks) -> None:
        while self._receive_some(asked):
            pass

    def _receive_some(self, asked: AskedChunks) -> list[Row]:
        if asked.is_received:
            return []
        try:
            return self._ask(asked.question.receive_some)
        except HoldfastError as error:
            # The first says why; the others are told no more than that the transaction has ended.
            self._failure = self._failure or error
            asked.error = self._failure
            return []


class AskedChunks(Mapping[ChunkHash, bytes]):
    """Chunks that were asked for. Looking at them waits for the answer."""

    __slots__ = ("_early", "_found", "_line", "error", "question")

    def __init__(self, question: ChunkQuestion, line: ChunksUnderWay) -> None:
        self.question = question
        self._line = line
        self._found: Mapping[ChunkHash, bytes] | HoldfastError | None = None
        self._early: dict[ChunkHash, Row] = {}
        self.error: HoldfastError | None = None
        """Why there is no answer."""

    @property
    def is_received(self) -> bool:
        """Whether nothing more comes of it."""
        return self.question.rows is not None or self.error is not None

    def take(self) -> Mapping[ChunkHash, bytes]:
        """The answer.

        Raises:
            HoldfastError: There is none.
        """
        if self._found is None:
            try:
                self._found = self._line.found(self)
            except HoldfastError as error:
                self._found = error
        if isinstance(self._found, HoldfastError):
            raise self._found
        return self._found

    def settle(self) -> None:
        """Have the answer, for whoever looks at it: a fault is theirs."""
        with suppress(HoldfastError):
            self.take()

    def __getitem__(self, name: ChunkHash) -> bytes:
        row = self._early.get(name)
        return self.take()[name] if row is None else plain_of(name, [row])

    def __contains__(self, name: object) -> bool:
        return name in self.take()

    def __iter__(self) -> Iterator[ChunkHash]:
        """As they come, and then those that need others."""
        seen: set[ChunkHash] = set()
        while some := self._line.some_of(self):
            alone = self.question.alone(some)
            self._early.update(alone)
            seen.update(alone)
            yield from alone
        yield from (name for name in self.take() if name not in seen)

    def __len__(self) -> int:
        return len(self.take())
