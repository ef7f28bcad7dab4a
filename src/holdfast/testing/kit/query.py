"""What a reader finds: every filter alone and together, odd names and keys, order and pages in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.history import jsontext
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Query
from holdfast.testing.kit.contract import Contract, cases, commit_all, found, ids
from holdfast.testing.rows import START, batch, checkpoint_id, edit, history, row, save

HOSTILE = [
    "plain", "", " ", "with space", "a.b", "$", "$.a", "$[0]", "[0]", "#", "a'b", 'a"b', 'a"."b', "a\\b", "a`b",
    "a%b_c*?", "') OR 1=1 --", "x') UNION SELECT * FROM chunk; --", "?1", ":name", "@p", "line\nbreak", "tab\tkey",
    "\u2028", "\N{SNOWMAN}", "\N{GRINNING FACE}", "e\u0301", "-1", "0", "null", "__proto__",
]  # fmt: skip
"""Texts that some query language somewhere takes for more than a text."""

VALUES: list[Any] = [
    1,
    "1",
    True,
    None,
    0,
    False,
    "",
    "null",
    "true",
    [],
    {},
    [1],
    {"k": 1},
    1.0,
    1.5,
    -(2**63),
]
VALUES += [2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1]
"""Each is another value than all the others; whole numbers are exact, beyond what a float can tell apart."""

KEYS = [
    "", "A", "Z", "a", "a b", "a!", "a%", "ab", "b", "z", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\u4e2d", "\ufb01",
    "\uffee", "\U00010000", "\U0001f600",
]  # fmt: skip
"""In the order of their bytes in UTF-8. UTF-16 would have the last two earlier, a language `A` beside `a`."""

EVERY_WAY: dict[str, dict[str, Any]] = {
    "everything": {},
    "session": {"session": "work"},
    "tag": {"tag": "t"},
    "id": {"id_prefix": ""},
    "agent": {"agent": "scout"},
    "project": {"project": "acme"},
    "since": {"since": START - 100},
    "until": {"until": START + 100},
    "branch": {"branch": "main"},
    "metadata": {"metadata": ((("m",), "1"),)},
    "several": {"session": "work", "tag": "t", "since": START - 100, "metadata": ((("m",), "1"),)},
}
"""Each may lead a backend through another table; all of them find the same checkpoints."""


def where(*path: str, equals: object) -> dict[str, Any]:
    """A filter for one metadata value."""
    return {"metadata": ((path, jsontext.dump(equals)),)}


def with_metadata(label: str, metadata: object, **fields: object) -> Batch:
    """A batch with one checkpoint that has this metadata, on no branch."""
    return batch(row(label, metadata=jsontext.dump(metadata), **fields))


def one(label: str, session: str = "work", **fields: Any) -> Batch:
    """A batch with one checkpoint, on no branch."""
    return batch(row(label, session=session, **fields), session=session)


STORE = (
    save("a", tags=("golden", "verified")),
    save("x", session="other", agent="scout", project="acme"),
    save("b", after="a", agent="scout", tags=("gold",), key="k%", step=7, at=START + 900),
    save("y", session="third", project="acme", status="failed", trigger="auto:a"),
    one(
        "c",
        tags=("verified",),
        trigger="auto:ab",
        prev=checkpoint_id("a"),
        step=0,
        key="k",
        created_at=START - 5,
    ),
    one("d", trigger="automatic", prev=checkpoint_id("b"), key="K%", step=70, created_at=START + 3),
    one("e", trigger="auto", branch="main-1", status="fail"),
)
"""Seven checkpoints of three sessions; times do not follow the order of arrival."""
FOUND: dict[str, tuple[dict[str, Any], str]] = {
    "everything, newest first": ({}, "e d c y b x a"),
    "oldest first": ({"oldest_first": True}, "a x b y c d e"),
    "a session": ({"session": "work"}, "e d c b a"),
    "no session": ({"session": "WORK"}, ""),
    "a branch": ({"branch": "main-1"}, "e"),
    "an agent is the session's": ({"agent": "scout"}, "e d c b x a"),
    "letter by letter": ({"agent": "Scout"}, ""),
    "a project": ({"project": "acme"}, "y x"),
    "both": ({"agent": "scout", "project": "acme"}, "x"),
    "a tag": ({"tag": "verified"}, "c a"),
    "a whole tag": ({"tag": "gold"}, "b"),
    "no tag": ({"tag": ""}, ""),
    "a status": ({"status": "failed"}, "y"),
    "a trigger": ({"trigger": "auto:a"}, "y"),
    "a family of triggers": ({"trigger": "auto"}, "e c y"),
    "another trigger": ({"trigger": "automatic"}, "d"),
    "a step": ({"step": 7}, "b"),
    "step 0": ({"step": 0}, "c"),
    "a key": ({"key": "k%"}, "b"),
    "a seq": ({"session": "work", "seq": 2}, "b"),
    "a seq of all sessions": ({"seq": 1}, "y x a"),
    "no seq": ({"session": "work", "seq": 0}, ""),
    "what follows one": ({"session": "work", "prev": checkpoint_id("a")}, "c b"),
    "what follows nothing": ({"prev": CheckpointId(b"")}, "e y x a"),
    "since includes its moment": ({"since": START + 3}, "d b"),
    "until includes its moment": ({"until": START}, "e c y x a"),
    "between": ({"since": START, "until": START + 3}, "e d y x a"),
    "never": ({"since": START + 3, "until": START}, ""),
    "a limit": ({"limit": 2}, "e d"),
    "a limit counts matches": ({"tag": "verified", "limit": 1}, "c"),
    "a limit of none": ({"limit": 0}, ""),
    "a large limit": ({"session": "third", "limit": 9}, "y"),
    "before a seq": ({"session": "work", "before_seq": 3}, "b a"),
    "after a seq": ({"session": "work", "after_seq": 3}, "e d"),
    "keys from": ({"key_from": "k"}, "c b"),
    "keys below": ({"key_below": "k"}, "d"),
    "no such metadata": ({"session": "nobody", "tag": "x", "metadata": ((("a",), "1"),)}, ""),
}


def six(backend: Backend) -> list[CheckpointRow]:
    """Six checkpoints of one session with one of another session, which no question here finds, in their middle."""
    rows: list[CheckpointRow] = []
    for number in range(6):
        if number == 3:
            backend.commit(save("x", session="other", branch="elsewhere", at=START + 999))
        # Times fall as seq rises, so that an order by time would show.
        made = row(
            f"{number}", created_at=START - number, tags=("t",), metadata='{"m":1}', key=f"k{5 - number}"
        )
        rows += backend.commit(batch(made, agent="scout", project="acme")).checkpoints
    return rows


class QueryContract(Contract):
    """Checkpoints that match come newest first; a filter that is None does not filter."""

    @cases(("filters", "labels"), FOUND)
    def test_a_filter_finds_exactly_what_matches(
        self, backend: Backend, filters: dict[str, Any], labels: str
    ) -> None:
        """Case, wildcards and blanks are plain characters; None matches nothing; order is by arrival, never by time."""
        assert found(backend, **filters) == []
        commit_all(backend, *STORE)
        assert found(backend, **filters) == ids(*labels.split())

    @pytest.mark.parametrize("name", ["00" * 32, "ff" * 32, "0a" * 32, "7f" + "ff" * 31])
    def test_an_id_is_found_by_a_prefix_of_any_length(self, backend: Backend, name: str) -> None:
        """Odd and even numbers of digits; the first and the last id there can be; of several, all of them."""
        others = [("1" if name[at] != "1" else "2").join((name[:at], name[at + 1 :])) for at in range(64)]
        rows = [row(text, id=CheckpointId(bytes.fromhex(text))) for text in (name, *others)]
        commit_all(backend, *(batch(each) for each in rows))
        for length in (1, 2, 3, 4, 5, 31, 32, 33, 63, 64):
            alike = [each.id for each in reversed(rows) if each.id.hex().startswith(name[:length])]
            assert found(backend, id_prefix=name[:length]) == alike
            assert len(alike) == 65 - length

    @pytest.mark.parametrize("text", HOSTILE)
    def test_a_text_is_only_ever_a_text(self, backend: Backend, text: str) -> None:
        """As a key of metadata, at the top and further down, as its value, as a name."""
        commit_all(
            backend,
            with_metadata("top", {text: "v"}, branch=f"b{text}", tags=(f"t{text}",)),
            with_metadata("deep", {"in": {text: "v"}}),
            with_metadata("value", {"k": text}),
            with_metadata("other", {text + "x": "v", "a": {"b": "v"}, "b": ["v"], "k": text + "x"}),
            with_metadata("none", {}),
        )
        assert found(backend, **where(text, equals="v")) == ids("top")
        assert found(backend, **where("in", text, equals="v")) == ids("deep")
        assert found(backend, **where("k", equals=text)) == ids("value")
        assert found(backend, **where(text, equals="w")) == []
        assert found(backend, branch=f"b{text}") == found(backend, tag=f"t{text}") == ids("top")

    def test_metadata_values_of_different_types_differ(self, backend: Backend) -> None:
        """1 is not 1.0, not "1" and not true; null is a value, and an absent key is not null."""
        commit_all(backend, *(with_metadata(f"{n}", {"v": value}) for n, value in enumerate(VALUES)))
        commit_all(backend, with_metadata("absent", {"other": None}))
        for number, value in enumerate(VALUES):
            assert found(backend, **where("v", equals=value)) == ids(f"{number}")

    def test_a_path_leads_through_objects_only(self, backend: Backend) -> None:
        """Not into lists or texts, and not further than there is something; all pairs must hold."""
        commit_all(
            backend,
            with_metadata("list", {"a": ["x"], "b": 1}),
            with_metadata("text", {"a": "x"}),
            with_metadata("object", {"a": {"0": "x"}, "b": 1}),
        )
        assert found(backend, **where("a", "0", equals="x")) == ids("object")
        assert found(backend, **where("a", "0", "deeper", equals="x")) == []
        assert found(backend, metadata=((("b",), "1"), (("a",), '["x"]'))) == ids("list")
        assert found(backend, **where("b", equals=1), limit=1) == ids("object")

    def test_added_metadata_hides_the_original(self, backend: Backend) -> None:
        """Key by key at the top: an added key, and an added null, cover what was under it; the others stay."""
        (first,) = commit_all(backend, with_metadata("a", {"stage": {"x": 1, "y": 2}, "kept": 3, "k": 1}))
        backend.commit(batch(edits=(edit(first, added_metadata='{"stage":{"x":9},"new":null,"k":null}'),)))
        there = [(("stage", "x"), 9), (("new",), None), (("kept",), 3), (("k",), None)]
        covered = [(("stage", "x"), 1), (("stage", "y"), 2), (("k",), 1)]
        assert [found(backend, **where(*path, equals=value)) for path, value in there] == [ids("a")] * 4
        assert [found(backend, **where(*path, equals=value)) for path, value in covered] == [[]] * 3

    def test_edits_reach_the_filters(self, backend: Backend) -> None:
        """Tags, what it follows, and whether it is there at all: removed checkpoints come only when asked for."""
        first, second = commit_all(
            backend, save("a", tags=("old",), key="k"), save("b", after="a", tags=("t",), metadata='{"m":1}')
        )
        hide = (edit(first, hidden=1, tags=("new",)), edit(second, prev=None, skipped=1))
        backend.commit(batch(edits=hide, operations=history(1)))
        assert found(backend, tag="old", include_hidden=True) == found(backend, prev=first.id) == []
        assert found(backend, prev=CheckpointId(b""), include_hidden=True) == ids("b", "a")
        for query in (
            {"session": "work"},
            {"tag": "new"},
            {"key": "k"},
            {"seq": 1},
            {"id_prefix": first.id.hex()},
        ):
            assert first.id not in found(backend, **query)
            assert first.id in found(backend, **query, include_hidden=True)
        assert found(backend, **where("m", equals=1), include_hidden=True) == ids("b")

    def test_filters_together_must_all_hold(self, backend: Backend) -> None:
        """One checkpoint fits every filter; each neighbour misses exactly one."""
        fits: dict[str, Any] = {
            "branch": "side",
            "tags": ("t",),
            "status": "failed",
            "trigger": "auto:x",
            "step": 3,
            "created_at": START + 5,
            "metadata": '{"m":1}',
        }
        misses: dict[str, Any] = {
            "session": "other",
            "branch": "main",
            "tags": ("u",),
            "status": "running",
            "trigger": "manual",
            "step": 4,
            "created_at": START + 11,
            "metadata": '{"m":2}',
        }
        claims = {"agent": "scout", "project": "acme"}
        for name, value in misses.items():
            missing = row(f"miss {name}", **(fits | {name: value}))
            backend.commit(batch(missing, session=missing.session, **claims))
        (hit,) = commit_all(backend, batch(row("hit", **fits), **claims))
        window = {"since": START + 5, "until": START + 10, "before_seq": 100, "before_position": 1_000_000}
        query = {
            "session": "work",
            "branch": "side",
            "tag": "t",
            "status": "failed",
            "trigger": "auto",
            "step": 3,
        }
        assert found(backend, **claims, **query, **window, **where("m", equals=1), limit=5) == [hit.id]

    @cases("way", EVERY_WAY)
    def test_order_and_pages_are_the_same_whatever_is_asked_for(
        self, backend: Backend, way: dict[str, Any]
    ) -> None:
        """By seq within a session, by position or by key: limits, and numbers that leave out themselves."""
        rows = six(backend)
        names = [each.id for each in rows]
        # Without a filter that leaves it out, the other session's checkpoint is excluded by its branch.
        way = {"branch": "main"} | way
        second, fifth = rows[1].position, rows[4].position
        table: list[tuple[dict[str, Any], list[CheckpointId]]] = [
            ({}, names[::-1]),
            ({"oldest_first": True}, names),
            ({"limit": 2}, names[:-3:-1]),
            ({"limit": 2, "oldest_first": True}, names[:2]),
            ({"after_seq": 2, "oldest_first": True}, names[2:]),
            ({"after_seq": 2}, names[:1:-1]),
            ({"after_seq": 1, "before_seq": 5}, names[3:0:-1]),
            ({"after_position": second, "oldest_first": True}, names[2:]),
            ({"after_position": second}, names[:1:-1]),
            ({"after_position": second, "before_position": fifth, "oldest_first": True}, names[2:4]),
            ({"after_seq": 6}, []),
            ({"after_position": rows[5].position}, []),
            ({"after_seq": 0, "after_position": 0}, names[::-1]),
            ({"by_key": True}, names),
            ({"by_key": True, "oldest_first": True, "limit": 2}, names[:-3:-1]),
            ({"by_key": True, "key_from": "k1", "key_below": "k4", "limit": 2}, names[2:4]),
            ({"key_from": "k4"}, names[1::-1]),
        ]
        for more, expected in table:
            assert found(backend, **way, **more) == expected, more

    def test_pages_cover_everything_once(self, backend: Backend) -> None:
        """From either end, whatever is committed or removed meanwhile: positions are no counts."""
        rows = commit_all(backend, *(save(f"{n}", session=f"s{n % 3}", branch=f"{n}") for n in range(5)))
        seen: list[CheckpointId] = []
        position = 0
        while True:
            page = self._page(backend, after_position=position, oldest_first=True)
            if not page:
                break
            seen += [each.id for each in page]
            position = page[-1].position
            if len(seen) == 4:
                rows += commit_all(backend, save("late"))
                gone = edit(rows[0], hidden=1)
                backend.commit(batch(session="s0", edits=(gone,), removals=(gone.id,)))
        assert seen == [each.id for each in rows]
        newest, older = self._page(backend), self._page(backend, before_position=rows[-2].position)
        assert [each.id for each in (*newest, *older)] == [each.id for each in rows[:1:-1]]

    @staticmethod
    def _page(backend: Backend, **query: Any) -> list[CheckpointRow]:
        with backend.reader() as reader:
            return list(reader.checkpoints(Query(**query, limit=2)))

    @staticmethod
    def _keyed(backend: Backend, **query: Any) -> list[str | None]:
        with backend.reader() as reader:
            return [each.key for each in reader.checkpoints(Query(session="work", by_key=True, **query))]

    def test_keys_come_in_the_order_of_their_bytes(self, backend: Backend) -> None:
        """Ranges have their first and not their last; what has no key is left out, what is removed keeps its place."""
        shuffled = KEYS[1::2] + KEYS[-2::-2]
        for number, key in enumerate(shuffled):
            commit_all(backend, batch(row(f"{number}", key=key)), batch(row(f"{number} without")))
        assert self._keyed(backend) == KEYS[::-1]
        assert self._keyed(backend, limit=3) == KEYS[:-4:-1]
        assert self._keyed(backend, limit=3, oldest_first=True) == KEYS[:3]
        for bound in (*KEYS, "a ", "B", "\ue000", "\U0010ffff"):
            above = [key for key in KEYS if key.encode() >= bound.encode()]
            below = [key for key in KEYS if key.encode() < bound.encode()]
            assert self._keyed(backend, key_from=bound, oldest_first=True) == above
            assert self._keyed(backend, key_below=bound, oldest_first=True) == below
        assert self._keyed(backend, key_from="a", key_below="ab") == ["a%", "a!", "a b", "a"]
        assert self._keyed(backend, key_from="a", key_below="A") == []
        hidden = row(f"{shuffled.index('b')}", key="b")
        backend.commit(batch(edits=(edit(hidden, hidden=1),), operations=history(1)))
        assert "b" not in self._keyed(backend)
        assert self._keyed(backend, include_hidden=True) == KEYS[::-1]

    def test_the_same_key_in_two_sessions_comes_by_position(self, backend: Backend) -> None:
        """A key is unique in its session only."""
        made = [("b", "one"), ("b", "two"), ("a", "two"), ("a", "one")]
        rows = commit_all(backend, *(one(f"{key} {name}", session=name, key=key) for key, name in made))
        assert found(backend, by_key=True, oldest_first=True) == [rows[n].id for n in (2, 3, 0, 1)]
        assert found(backend, by_key=True, limit=3) == [rows[n].id for n in (1, 0, 3)]

    def test_sessions_come_oldest_first(self, backend: Backend) -> None:
        """With the filters that narrow them."""
        commit_all(
            backend,
            save("a", session="zeta", agent="scout", at=START),
            save("b", session="alpha", agent="scout", project="acme", at=START + 1),
            save("c", session="mid", project="acme", at=START + 2),
        )
        table: list[tuple[dict[str, str], list[str]]] = [
            ({}, ["zeta", "alpha", "mid"]),
            ({"agent": "scout"}, ["zeta", "alpha"]),
            ({"project": "acme"}, ["alpha", "mid"]),
            ({"agent": "scout", "project": "acme"}, ["alpha"]),
            ({"agent": "nobody"}, []),
        ]
        with backend.reader() as reader:
            for filters, expected in table:
                assert [each.id for each in reader.sessions(**filters)] == expected
