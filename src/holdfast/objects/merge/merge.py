"""The three-way merge of values: the common ancestor and both sides, taken apart together.

What one side left as it was becomes what the other made of it; what both made the same is that. Where both changed
something, containers of the same kind are merged part by part, texts of several lines line by line, and anything else
is a conflict. Every step waits on a stack of our own, as a generator: a level of recursion would take several frames.

Lines that were merged into each other crosswise have several common ancestors: where these agree, their value is the
base, and where they do not, nothing follows from a side being as one of them was. The same holds everywhere if the last
common ancestor is gone for good, and an older one takes its place. Then containers are still taken apart, as deep as
can be, and what differs is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import EXTRA, PathStep
from holdfast.objects.diff.alignment import align
from holdfast.objects.diff.encoded_value import (
    ARRAY,
    DICT,
    EXTENSION,
    LIST,
    MAP,
    NIL,
    PAIRS,
    RECORD,
    SET,
    Encoded,
    Opened,
    identity_of,
    open_value,
    rebuild,
    text_of,
)
from holdfast.objects.diff.sequences import Item
from holdfast.objects.merge.conflict import ConflictKind, MergeConflict, MergeResolution
from holdfast.objects.merge.order import order_keys, order_named
from holdfast.objects.merge.resolve import Resolver
from holdfast.objects.merge.rows import Appended, Contact, Entry, Stretch, join_appended, merge_rows
from holdfast.record import Record

_NO_TYPES: Final = TypeRegistry()
_DICTS: Final = ((DICT,), (msgpack.PAIRS,))
_SET_NAMES: Final = "set"
"""What a pydantic model keeps beside its fields: the names of those that were set, left out where all were."""

_Maybe = Encoded | None
_Items = list[Encoded]
_Rows = tuple[_Items, _Items, _Items]


class Sides(Record):
    """A place, and what is there in each state; None where nothing is."""

    steps: tuple[PathStep, ...]
    bases: tuple[_Maybe, ...]
    """Of each common ancestor, the youngest first; only one where they agree."""
    ours: _Maybe
    theirs: _Maybe


class _Parts(Record):
    """The sides of a place, taken apart; what is not there has no parts."""

    bases: list[Opened]
    ours: Opened
    theirs: Opened

    @property
    def all(self) -> list[Opened]:
        return [*self.bases, self.ours, self.theirs]


_Work = Generator[Sides, _Maybe, _Maybe]


class Merge:
    """One merge.

    Args:
        types: The classes that the values of conflicts may hold.
        resolver: Who decides on conflicts.
        exact: Whether the ancestors are the last ones that both sides had.
    """

    def __init__(self, types: TypeRegistry, resolver: Resolver, *, exact: bool = True) -> None:
        self._types = types
        self._resolver = resolver
        self._exact = exact
        self.conflicts: list[MergeConflict] = []
        """Those that nobody decided on; our side stands in the result."""
        self.resolved: list[MergeResolution] = []

    def run(self, bases: Sequence[Encoded], ours: Encoded, theirs: Encoded) -> Encoded:
        """The merged value."""
        stack = [self._merged(Sides((), tuple(bases), ours, theirs))]
        result: _Maybe = None
        while stack:
            try:
                inner = stack[-1].send(result)
            except StopIteration as end:
                stack.pop()
                result = end.value
            else:
                stack.append(self._merged(inner))
                result = None
        assert result is not None
        return result

    def _merged(self, sides: Sides) -> _Work:
        ours, theirs = sides.ours, sides.theirs
        known = self._exact and all(_same(sides.bases[0], each) for each in sides.bases)
        if known:
            sides = sides._replace(bases=sides.bases[:1])
        if _same(ours, theirs) or (known and _same(sides.bases[0], theirs)):
            return ours
        if known and _same(sides.bases[0], ours):
            return theirs
        if ours is None or theirs is None:
            return self._conflict(sides, "remove/edit" if ours is None else "edit/remove")
        parts = self._open(sides, ours, theirs)
        if parts is not None:
            return (yield from self._by_parts(sides, parts, known=known))
        merged = _merge_texts(sides.bases[0], ours, theirs) if known else None
        kind = _changed(sides)
        if kind == "edit/edit" and _type_of(ours) != _type_of(theirs):
            kind = "type"
        return self._conflict(sides, kind) if merged is None else merged

    def _open(self, sides: Sides, ours: Encoded, theirs: Encoded) -> _Parts | None:
        """The sides taken apart; None where they are not containers of one kind."""
        present = [each for each in sides.bases if each is not None]
        opened = [open_value(each) for each in (*present, ours, theirs)]
        frames = {each and each.frame for each in opened}
        if frames == {*_DICTS}:
            # With one key that is no text, a dict is encoded in another way; it is still a dict.
            opened = [each and _by_encoded_keys(each) for each in opened]
        *bases, mine, other = opened
        if mine is None or other is None or mine.frame != other.frame:
            return None
        fit = [each for each in bases if each is not None and each.frame == mine.frame]
        if len(fit) < len(bases) and self._exact:
            return None
        left = iter(bases)
        nothing = Opened(mine.shape, mine.frame, [])
        whole = len(fit) == len(bases)
        found = [(next(left) if each is not None and whole else None) or nothing for each in sides.bases]
        return _Parts(found, mine, other)

    def _by_parts(self, sides: Sides, parts: _Parts, *, known: bool) -> _Work:
        shape, frame = parts.ours.shape, parts.ours.frame
        if shape == LIST:
            values = yield from self._row(sides, parts, known=known)
            return values if isinstance(values, Encoded | None) else rebuild(frame, _data(values))
        if shape == SET:
            members = _merge_members(parts) if known else None
            return self._conflict(sides, _changed(sides)) if members is None else rebuild(frame, members)
        if shape == PAIRS and not _distinct({key for each in parts.all for key in each.keys}):
            # 1 and True are not the same, but a dict can have only one of them.
            return self._conflict(sides, _changed(sides))
        step = {DICT: _key_step, PAIRS: _pair_step, RECORD: _field_step}[shape]
        found = yield from self._mapping(sides, step, parts)
        extra: _Maybe = None
        if shape == RECORD:
            extra = yield from self._extra(sides, parts, list(found))
        return rebuild(frame, _data(found.values()), list(found), NIL if extra is None else extra.data)

    def _mapping(
        self, sides: Sides, step: Callable[[Any], PathStep], parts: _Parts
    ) -> Generator[Sides, _Maybe, dict[Any, Encoded]]:
        *bases, ours, theirs = (dict(zip(each.keys, each.values, strict=True)) for each in parts.all)
        found: dict[Any, Encoded] = {}
        for key in order_keys(list(bases[0]), list(ours), list(theirs)):
            was = tuple(each.get(key) for each in bases)
            value = yield Sides((*sides.steps, step(key)), was, ours.get(key), theirs.get(key))
            if value is not None:
                found[key] = value
        return found

    def _extra(self, sides: Sides, parts: _Parts, merged: Sequence[str]) -> _Work:
        *bases, ours, theirs = (each.extra or Encoded(NIL) for each in parts.all)
        *names, mine, other = (each.keys for each in parts.all)
        found = [
            _merge_set_names((base, ours, theirs), (known, mine, other), merged)
            for base, known in zip(bases, names, strict=True)
        ]
        # Which fields were set is no value of anybody's: an ancestor that is not the last one will do.
        if found[0] is not None and (not self._exact or all(_same(found[0], each) for each in found)):
            return found[0]
        return (yield Sides((*sides.steps, EXTRA), tuple(bases), ours, theirs))

    def _row(self, sides: Sides, parts: _Parts, *, known: bool) -> Generator[Sides, _Maybe, _Items | _Maybe]:
        """The items of a list, tuple or deque, or what became of it as a whole."""
        frame = parts.ours.frame
        rows = [each.values for each in parts.all]
        if frame[0] == msgpack.TUPLE:
            # A tuple is a record without names, rather than a row that grows.
            if len({len(row) for row in rows}) > 1:
                return self._conflict(sides, _changed(sides))
            names: list[list[Hashable]] = [[*range(len(row))] for row in rows]
            return (yield from self._named(sides, rows, names))
        if (known and sides.bases[0] is None) or (frame[0] == msgpack.DEQUE and frame[1] != NIL):
            # Two lists that were made apart are not one; a deque that is full would drop what it has no room for.
            return self._conflict(sides, _changed(sides))
        # Most items are on all sides.
        known_ids = {value.data: value for row in rows for value in row}
        named = {data: identity_of(value) for data, value in known_ids.items()}
        ids = [[named[value.data] for value in row] for row in rows]
        if all(None not in row and len(set(row)) == len(row) for row in ids):
            return (yield from self._named(sides, rows, ids))
        if not known:
            return self._conflict(sides, _changed(sides))
        return (yield from self._items(sides, (rows[0], rows[1], rows[2]), ids))

    def _named(
        self, sides: Sides, rows: list[_Items], names: Sequence[Sequence[Hashable]]
    ) -> Generator[Sides, _Maybe, _Items | _Maybe]:
        """A list whose items all say who they are: each is merged with itself, wherever it stands."""
        order = self._order(names)
        if order is None:
            return self._conflict(sides, "order")
        *bases, ours, theirs = (
            dict(zip(ids, row, strict=True)) for ids, row in zip(names, rows, strict=True)
        )
        *_, mine, other = ({name: at for at, name in enumerate(ids)} for ids in names)
        found: _Items = []
        for name in order:
            was = tuple(each.get(name) for each in bases)
            if name in ours and name in theirs and _same(ours[name], theirs[name]):
                found.append(ours[name])
                continue
            steps = (*sides.steps, PathStep("index", mine.get(name, other.get(name))))
            item = Sides(steps, was, ours.get(name), theirs.get(name))
            added = None in was if self._exact else not any(was)
            value = yield from self._item(item, added=added)
            found += [] if value is None else [value]
        return found

    def _item(self, item: Sides, *, added: bool) -> _Work:
        """An item with a name; two new ones are not merged, since ids are often counted on both sides."""
        if added and item.ours is not None and item.theirs is not None and not _same(item.ours, item.theirs):
            return self._conflict(item, "add/add")
        return (yield item)

    def _order(self, names: Sequence[Sequence[Hashable]]) -> list[Hashable] | None:
        """In which order named items stand; None where that does not follow."""
        *bases, ours, theirs = names
        there = {*ours, *theirs}
        if not self._exact:
            # As if both had begun with what both have.
            both = set(ours) & set(theirs)
            bases = [[name for name in side if name in both] for side in (ours, theirs)]
            if bases[0] != bases[1]:
                return None
        orders = [order_named(base, ours, theirs) for base in bases]
        found = [None if each is None else [name for name in each if name in there] for each in orders]
        return found[0] if all(each == found[0] for each in found) else None

    def _items(
        self, sides: Sides, rows: _Rows, ids: list[list[bytes | None]]
    ) -> Generator[Sides, _Maybe, _Items | _Maybe]:
        items = [[Item(at, value) for at, value in enumerate(row)] for row in rows]
        outcomes = merge_rows((items[0], items[1], items[2]), (ids[0], ids[1], ids[2]))
        if outcomes is None:
            return self._conflict(sides, "order")
        found: _Items = []
        for each in outcomes:
            if isinstance(each, Contact):
                found += yield from self._contact(sides, each, rows)
            else:
                found += yield from self._outcome(sides, each, rows)
        return found

    def _outcome(
        self, sides: Sides, each: Entry | Stretch | Appended, rows: _Rows
    ) -> Generator[Sides, _Maybe, _Items]:
        if isinstance(each, Stretch):
            return self._stretch(sides, each, rows)
        if isinstance(each, Appended):
            return (yield from self._appended(sides, each, rows))
        at = each.ours if each.ours is not None else each.theirs
        base, ours, theirs = map(_at, rows, each)
        value = yield Sides((*sides.steps, PathStep("index", at)), (base,), ours, theirs)
        return [] if value is None else [value]

    def _contact(self, sides: Sides, contact: Contact, rows: _Rows) -> Generator[Sides, _Maybe, _Items]:
        """Items that both changed, with what stands beside them: one conflict where an item cannot be merged."""
        lists: tuple[list[Any], ...] = (self.conflicts, self.resolved, self._resolver.open)
        before = [len(each) for each in lists]
        depth = len(sides.steps) + 1
        found: _Items = []
        for each in contact.outcomes:
            told = len(self.conflicts), len(self.resolved)
            found += yield from self._outcome(sides, each, rows)
            new = [*self.conflicts[told[0] :], *(each.conflict for each in self.resolved[told[1] :])]
            if isinstance(each, Entry) and each.base is not None and any(len(c.steps) == depth for c in new):
                # A dict or an object is an item of its own, which its place and its likeness tell.
                if None in each and open_value(rows[0][each.base]) is not None:
                    continue
                for told_of, number in zip(lists, before, strict=True):
                    del told_of[number:]
                return self._stretch(sides, contact.stretch, rows)
        return found

    def _appended(self, sides: Sides, each: Appended, rows: _Rows) -> Generator[Sides, _Maybe, _Items]:
        mine, other = rows[1][each.ours :], rows[2][each.theirs :]
        names = [[identity_of(value) or value.token for value in row] for row in (mine, other)]
        found: _Items = []
        for left, right in join_appended(*names):
            at = each.ours + left if left is not None else each.theirs + (right or 0)
            steps = (*sides.steps, PathStep("index", at))
            value = yield from self._item(
                Sides(steps, (None,), _at(mine, left), _at(other, right)), added=True
            )
            found += [] if value is None else [value]
        return found

    def _stretch(self, sides: Sides, stretch: Stretch, rows: _Rows) -> _Items:
        parts = [row[slice(*ends)] for row, ends in zip(rows, stretch, strict=True)]
        start, stop = stretch.ours
        base, ours, theirs = (rebuild((LIST,), _data(part)) for part in parts)
        steps = (*sides.steps, PathStep("index", f"{start}:{stop}"))
        decided = self._conflict(Sides(steps, (base,), ours, theirs), _kind_of(*map(bool, parts)))
        assert decided is not None
        return [*decided.inside().values]

    def _conflict(self, sides: Sides, kind: ConflictKind) -> _Maybe:
        """What is decided on a conflict; our side where nothing is."""
        base, ours, theirs = (
            None if each is None else each.data for each in (sides.bases[0], sides.ours, sides.theirs)
        )
        conflict = MergeConflict(kind, sides.steps, (base, ours, theirs), self._types)
        answer = self._resolver.decide(conflict)
        if answer is None:
            self.conflicts.append(conflict)
            return sides.ours
        self.resolved.append(MergeResolution(conflict, answer.how))
        return None if answer.data is None else Encoded(answer.data)


def merge_lines(base: str, ours: str, theirs: str) -> str | None:
    """Texts of several lines, merged line by line; None where they are in each other's way.

    Lines that neither side touched keep the changes apart. Between two of them at most one side may have changed
    something, or both the same; otherwise the whole text is a conflict, because a person has to read what is around it.
    """
    old, left, right = (text.split("\n") for text in (base, ours, theirs))
    in_left, in_right = dict(align(old, left)), dict(align(old, right))
    stable = [at for at in range(len(old)) if at in in_left and at in in_right]
    merged: list[str] = []
    at = left_at = right_at = 0
    ends = [(each, in_left[each], in_right[each]) for each in stable]
    for stop, left_stop, right_stop in [*ends, (len(old), len(left), len(right))]:
        before, mine, other = old[at:stop], left[left_at:left_stop], right[right_at:right_stop]
        if other in (before, mine):
            merged += mine
        elif mine == before:
            merged += other
        else:
            return None
        merged += old[stop : stop + 1]
        at, left_at, right_at = stop + 1, left_stop + 1, right_stop + 1
    return "\n".join(merged)


def _merge_texts(base: _Maybe, ours: Encoded, theirs: Encoded) -> Encoded | None:
    """Texts of several lines, where both sides changed others; None where it is anything else."""
    was, mine, other = (None if each is None else text_of(each) for each in (base, ours, theirs))
    if was is None or mine is None or other is None or "\n" not in was:
        return None
    merged = merge_lines(was, mine, other)
    return None if merged is None else Encoded(ormsgpack.packb(merged))


def _merge_members(parts: _Parts) -> set[bytes] | None:
    """The members of a set; None where Python takes two of them for one."""
    base, ours, theirs = ({each.data for each in side.values} for side in parts.all)
    members = (ours | (theirs - base)) - (base - theirs)
    return members if _distinct(members) else None


def _merge_set_names(
    extras: tuple[Encoded, Encoded, Encoded], fields: Sequence[Sequence[str]], merged: Sequence[str]
) -> Encoded | None:
    """The extra of a merged model; None where the three differ in more than the names of the fields that were set."""
    if all(extra.data == NIL for extra in extras):
        return extras[0]
    names: list[set[Any]] = []
    for extra, all_names in zip(extras, fields, strict=True):
        opened = None if extra.data == NIL else open_value(extra)
        if extra.data != NIL and (
            opened is None or opened.shape != DICT or list(opened.keys) != [_SET_NAMES]
        ):
            return None
        names.append(
            set(all_names) if opened is None else set(map(text_of, opened.values[0].inside().values))
        )
    base, ours, theirs = names
    found = (ours | (theirs - base)) - (base - theirs)
    return Encoded(NIL if found == set(merged) else ormsgpack.packb({_SET_NAMES: sorted(found)}))


def _same(one: _Maybe, other: _Maybe) -> bool:
    if one is None or other is None:
        return one is other
    return one.data == other.data


def _data(values: Iterable[Encoded]) -> list[bytes]:
    return [each.data for each in values]


def _at(row: _Items, at: int | None) -> _Maybe:
    return None if at is None else row[at]


def _changed(sides: Sides) -> ConflictKind:
    return "add/add" if all(each is None for each in sides.bases) else "edit/edit"


def _kind_of(base: bool, ours: bool, theirs: bool) -> ConflictKind:  # noqa: FBT001 - what there is of a stretch
    if not base:
        return "add/add"
    if ours and theirs:
        return "edit/edit"
    return "edit/remove" if ours else "remove/edit"


def _type_of(value: Encoded) -> Any:
    """What a value is, as far as it matters to whoever looks at a conflict."""
    kind, _, content = value.head()
    if kind == EXTENSION:
        opened = open_value(value)
        return value.data[content - 1], opened and opened.frame[:2]
    return kind if kind in (ARRAY, MAP) else type(ormsgpack.unpackb(value.data))


def _by_encoded_keys(opened: Opened) -> Opened:
    if opened.shape == PAIRS:
        return opened
    return Opened(PAIRS, (msgpack.PAIRS,), opened.values, [ormsgpack.packb(key) for key in opened.keys])


def _distinct(encoded: Iterable[bytes]) -> bool:
    """Whether members or keys are still different from each other once they are decoded."""
    decoded = [decode_value(each, _NO_TYPES) for each in encoded]
    return len(set(decoded)) == len(decoded)


def _key_step(key: Any) -> PathStep:
    return PathStep("key", key)


def _pair_step(key: Any) -> PathStep:
    return PathStep("key", decode_value(key, _NO_TYPES))


def _field_step(name: Any) -> PathStep:
    return PathStep("field", name)
