"""The belief graph: what is held to be true, what it rests on, and where it contradicts itself.

A belief is held if it was not retracted and its confidence is at least 0.5. Dependencies go from one belief to another:
`a requires b` and `a derived_from b` say that whoever holds a is committed to b, and that a falls when b does; `a
supports b` makes b weaker when a falls; `a contradicts b` goes both ways. There is a contradiction wherever two beliefs
contradict each other and both are held, or something held is committed to them, directly or over other beliefs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final

from holdfast.agents.notebook.part import Item, Observer, Part, check_share, plain
from holdfast.errors import ErrorCode, InvalidInputError

__all__ = ["HELD", "KINDS", "BeliefGraph", "Contradiction", "Fall"]

KINDS: Final = ("supports", "contradicts", "requires", "derived_from")
COMMITTING: Final = ("requires", "derived_from")
HELD: Final = 0.5

Edge = tuple[str, str, str]
"""From, kind, to."""


@dataclass(frozen=True)
class Contradiction:
    """Two beliefs that cannot both be true, and what holds on to each."""

    between: tuple[str, str]
    direct: bool
    """Both are held themselves; otherwise something that is held is committed to them."""
    left: tuple[str, ...]
    """What is held and committed to the first one, itself included."""
    right: tuple[str, ...]
    path: tuple[Edge, ...]
    """The shortest way from something held on one side over the contradiction to something held on the other."""

    def to_dict(self) -> dict[str, Any]:
        """The contradiction as data."""
        return {
            "between": list(self.between),
            "direct": self.direct,
            "left": list(self.left),
            "right": list(self.right),
            "path": [{"from": one, "type": kind, "to": other} for one, kind, other in self.path],
        }


@dataclass(frozen=True)
class Fall:
    """What goes with a belief that falls."""

    belief: str
    falls: dict[str, tuple[str, ...]]
    """Held beliefs that rest on it, each with the way to it."""
    weakened: tuple[str, ...]
    """Held beliefs that it, or one that falls with it, supports."""

    def to_dict(self) -> dict[str, Any]:
        """The fall as data."""
        return {
            "belief": self.belief,
            "falls": {name: list(way) for name, way in self.falls.items()},
            "weakened": list(self.weakened),
        }


class BeliefGraph(Part):
    """Beliefs and what they depend on."""

    keys: ClassVar[tuple[str, ...]] = ("beliefs", "belief_dependencies")
    noun = "belief"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._outgoing: dict[str, list[tuple[str, str]]] | None = None
        self._incoming: dict[str, list[tuple[str, str]]] = {}
        self._clashes: set[tuple[str, str]] = set()
        self._known: set[tuple[str, str]] | None = None

    def attach(self, data: MutableMapping[str, Any], observer: Observer | None = None) -> None:
        """Keep the beliefs in `data` from now on."""
        super().attach(data, observer)
        self._outgoing = None
        self._known = None

    def restore(self, value: Mapping[str, Any]) -> None:
        """Take the beliefs of a snapshot in the place of those that are here."""
        super().restore(value)
        self._outgoing = None
        self._known = None

    def add(self, statement: str, *, confidence: float = 0.5, source: str = "", reason: str = "") -> str:
        """Add a belief and return its id."""
        item: Item = {
            "statement": self._text(statement, "statement"),
            "confidence": check_share(confidence, "confidence"),
            "status": "held",
            "source": self._text(source, "source") if source else "",
            "reason": self._text(reason, "reason") if reason else "",
            "created_at": self.clock(),
            "updated_at": self.clock(),
        }
        name = self._new_id("beliefs", "b")
        self._data["beliefs"][name] = {"id": name, **item}
        self._fire("belief.added", self.get(name))
        return name

    def get(self, belief: str) -> Item:
        """Return a belief as a plain dict."""
        item: Item = plain(self._get("beliefs", belief))
        return item

    def all(self, *, held: bool | None = None) -> list[Item]:
        """Return the beliefs, oldest first; only those that are held, or are not, if `held` says so."""
        return [plain(each) for each in self._data["beliefs"].values() if held in (None, _is_held(each))]

    def dependencies(self, belief: str | None = None) -> list[Item]:
        """Return the dependencies as dicts of `from`, `to`, `type` and `reason`."""
        found = self._data["belief_dependencies"].values()
        return [plain(each) for each in found if belief in (None, each["from"], each["to"])]

    def link(self, belief: str, kind: str, other: str, *, reason: str = "") -> Item:
        """Say how one belief depends on another: supports, contradicts, requires or derived_from.

        Raises:
            InvalidInputError: The kind is none of these, or both are the same belief.
            NotFoundError: There is no such belief (`item-missing`).
        """
        self._get("beliefs", belief)
        self._get("beliefs", other)
        self._choice(kind, KINDS, "dependency")
        if belief == other:
            raise InvalidInputError(
                f"belief {belief} cannot depend on itself",
                code=ErrorCode.BAD_ARGUMENT,
                hint="name two beliefs",
                id=belief,
            )
        item: Item = {
            "from": belief,
            "to": other,
            "type": kind,
            "reason": self._text(reason, "reason") if reason else "",
            "created_at": self.clock(),
        }
        self._index()
        before = self._known_clashes()
        key = self._key_of(item)
        if key not in self._data["belief_dependencies"]:
            self._data["belief_dependencies"][key] = item
            self._note(item)
        self._fire("belief.linked", plain(self._data["belief_dependencies"][key]))
        self._look(before, changed=kind != "supports")
        return item

    def unlink(self, belief: str, kind: str, other: str) -> bool:
        """Take a dependency away; say whether there was one."""
        gone = self._data["belief_dependencies"].pop(f"{belief} {kind} {other}", None)
        if gone is None:
            return False
        self._outgoing = None
        self._known = None
        self._fire("belief.unlinked", plain(gone))
        return True

    def set_confidence(self, belief: str, confidence: float, *, reason: str = "") -> Item:
        """Change how sure a belief is."""
        return self._change(belief, reason, confidence=check_share(confidence, "confidence"))

    def retract(self, belief: str, *, reason: str = "", cascade: bool = False) -> Fall:
        """Give a belief up; return what falls with it. With `cascade` that is given up as well."""
        fall = self.what_falls(belief)
        self._change(belief, reason, status="retracted")
        if cascade:
            for each in fall.falls:
                self._change(each, f"rests on {belief}, which was given up", status="retracted")
        return fall

    def hold(self, belief: str, *, reason: str = "") -> Item:
        """Hold a belief again that was given up."""
        return self._change(belief, reason, status="held")

    def contradictions(self) -> list[Contradiction]:
        """Return every contradiction, direct ones first, then by the ids."""
        self._index()
        found = (self._contradiction(one, other) for one, other in sorted(self._clashes))
        return sorted((each for each in found if each), key=lambda each: (not each.direct, each.between))

    def what_falls(self, belief: str) -> Fall:
        """Return what rests on a belief: what falls with it, over which way, and what is weakened."""
        self._get("beliefs", belief)
        self._index()
        ways = self._reach(belief)
        beliefs = self._data["beliefs"]
        falls = {
            name: tuple(way)
            for name, way in ways.items()
            if name != belief and name in beliefs and _is_held(beliefs[name])
        }
        weak = {
            other
            for name in (belief, *falls)
            for kind, other in (self._outgoing or {}).get(name, ())
            if kind == "supports" and other not in falls and other != belief and _is_held(beliefs[other])
        }
        return Fall(belief, falls, tuple(sorted(weak)))

    def on_contradiction(self, callback: Callable[[Item], Any]) -> None:
        """Call a function with each new contradiction, as data."""
        self.on("contradiction.detected", callback)

    def _key_of(self, item: Mapping[str, Any]) -> str:
        return str(item["id"]) if "id" in item else f"{item['from']} {item['type']} {item['to']}"

    def _change(self, belief: str, reason: str, **fields: Any) -> Item:
        item = self._get("beliefs", belief)
        before = self._known_clashes()
        for name, value in fields.items():
            item[name] = value
        item["reason"] = self._text(reason, "reason") if reason else ""
        item["updated_at"] = self.clock()
        self._fire("belief.changed", self.get(belief))
        self._look(before, changed=True)
        return self.get(belief)

    def _known_clashes(self) -> set[tuple[str, str]]:
        if self._known is None:
            self._known = {each.between for each in self.contradictions()}
        return self._known

    def _look(self, before: set[tuple[str, str]], *, changed: bool) -> None:
        if not changed:
            return
        found = self.contradictions() if self._clashes else []
        self._known = {each.between for each in found}
        for each in found:
            if each.between not in before:
                self._fire("contradiction.detected", each.to_dict())

    def _index(self) -> None:
        if self._outgoing is None:
            self._outgoing, self._incoming, self._clashes = {}, {}, set()
            for each in self._data["belief_dependencies"].values():
                self._note(each)

    def _note(self, item: Mapping[str, Any]) -> None:
        assert self._outgoing is not None
        one, other, kind = item["from"], item["to"], item["type"]
        self._outgoing.setdefault(one, []).append((kind, other))
        if kind in COMMITTING:
            self._incoming.setdefault(other, []).append((kind, one))
        if kind == "contradicts":
            self._clashes.add((min(one, other), max(one, other)))

    def _reach(self, belief: str) -> dict[str, list[str]]:
        """Everything that is committed to a belief, each with the shortest way to it."""
        ways = {belief: [belief]}
        queue = deque([belief])
        while queue:
            at = queue.popleft()
            for _, above in self._incoming.get(at, ()):
                if above not in ways:
                    ways[above] = [above, *ways[at]]
                    queue.append(above)
        return ways

    def _contradiction(self, one: str, other: str) -> Contradiction | None:
        beliefs = self._data["beliefs"]

        def holders(of: str) -> list[list[str]]:
            held = [
                way for name, way in self._reach(of).items() if name in beliefs and _is_held(beliefs[name])
            ]
            return sorted(held, key=lambda way: (len(way), way))

        left, right = holders(one), holders(other)
        if not left or not right:
            return None
        path = [*self._edges(left[0]), (one, "contradicts", other)]
        path += reversed(self._edges(right[0]))
        direct = len(left[0]) == 1 and len(right[0]) == 1
        return Contradiction((one, other), direct, _names(left), _names(right), tuple(path))

    def _edges(self, way: list[str]) -> list[Edge]:
        assert self._outgoing is not None
        return [
            (one, next(kind for kind, to in self._outgoing[one] if to == other and kind in COMMITTING), other)
            for one, other in pairwise(way)
        ]


def _names(ways: Iterable[list[str]]) -> tuple[str, ...]:
    return tuple(sorted(way[0] for way in ways))


def _is_held(item: Mapping[str, Any]) -> bool:
    return bool(item["status"] == "held" and item["confidence"] >= HELD)
