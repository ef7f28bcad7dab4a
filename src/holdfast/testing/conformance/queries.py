"""What a reader finds: every filter alone and together, odd names and keys, order, pages, removed checkpoints."""

from __future__ import annotations

import pytest

from holdfast.history import jsontext
from holdfast.storage.ports import Backend
from holdfast.storage.records import Batch, CheckpointId, Query
from holdfast.testing.conformance.contract import Contract, commit_all, found
from holdfast.testing.rows import START, batch, checkpoint_id, edit, history, row, save

HOSTILE_KEYS = [
    "plain",
    "",
    " ",
    "with space",
    "a.b",
    "$",
    "$.a",
    "$[0]",
    "[0]",
    "#",
    "a'b",
    'a"b',
    'a"."b',
    "a\\b",
    "a`b",
    "a%b_c*?",
    "') OR 1=1 --",
    "x') UNION SELECT * FROM chunk; --",
    "?1",
    ":name",
    "@p",
    "line\nbreak",
    "tab\tkey",
    "\u2028",
    "\N{SNOWMAN}",
    "\N{GRINNING FACE}",
    "e\u0301",
    "-1",
    "0",
    "null",
    "__proto__",
]
"""Keys that some query language somewhere takes for more than a key."""


def ids(*labels: str) -> list[CheckpointId]:
    """The ids of these labels, in this order."""
    return [checkpoint_id(label) for label in labels]


def where(*path: str, equals: object) -> Query:
    """A query for one metadata value."""
    return Query(metadata=((path, jsontext.dump(equals)),))


def with_metadata(label: str, metadata: object, **fields: object) -> Batch:
    """A batch with one checkpoint that has this metadata, on no branch."""
    return batch(row(label, metadata=jsontext.dump(metadata), **fields))


class QueryContract(Contract):
    """Checkpoints that match come newest first; a filter that is None does not filter."""

    def test_without_a_filter_everything_comes_newest_first(self, backend: Backend) -> None:
        """By arrival across sessions."""
        commit_all(backend, save("a"), save("x", session="other"), save("b", after="a"))
        assert found(backend, Query()) == ids("b", "x", "a")

    def test_order_is_by_seq_and_never_by_time(self, backend: Backend) -> None:
        """A clock that goes back changes nothing."""
        commit_all(
            backend, save("a", at=START + 900), save("b", after="a", at=START), save("c", after="b", at=5)
        )
        assert found(backend, Query(session="work")) == ids("c", "b", "a")
        assert found(backend, Query()) == ids("c", "b", "a")

    def test_an_empty_store_has_no_matches(self, backend: Backend) -> None:
        """Nothing is not an error."""
        assert found(backend, Query()) == []
        assert found(backend, Query(session="nobody", tag="x", metadata=((("a",), "1"),))) == []

    @pytest.mark.parametrize(
        ("field", "value", "near_misses"),
        [
            ("session", "it's", ["its", "IT'S", "it's "]),
            ("branch", "main-1", ["main", "main-10", "MAIN-1"]),
            ("status", "failed", ["running", "fail"]),
            ("trigger", "manual", ["scheduled", "manua"]),
            ("step", 7, [70, -7, None]),
            ("step", 0, [1, None]),
            ("key", "k%", ["k", "kx", "K%", None]),
        ],
    )
    def test_a_filter_matches_its_value_exactly(
        self, backend: Backend, field: str, value: object, near_misses: list[object]
    ) -> None:
        """Case, wildcards and blanks are plain characters; None matches nothing."""
        for number, miss in enumerate(near_misses):
            labelled = row(f"miss {number}", **{field: miss})
            backend.commit(batch(labelled, session=labelled.session))
        hit = row("hit", **{field: value})
        backend.commit(batch(hit, session=hit.session))
        assert found(backend, Query(**{field: value})) == [hit.id]  # type: ignore[arg-type]

    def test_agent_and_project_are_those_of_the_session(self, backend: Backend) -> None:
        """Also for checkpoints saved before the session had them."""
        commit_all(
            backend,
            save("a"),
            save("b", after="a", agent="scout"),
            save("x", session="other", agent="scout", project="acme"),
            save("y", session="third", project="acme"),
        )
        assert found(backend, Query(agent="scout")) == ids("x", "b", "a")
        assert found(backend, Query(project="acme")) == ids("y", "x")
        assert found(backend, Query(agent="scout", project="acme")) == ids("x")
        assert found(backend, Query(agent="Scout")) == []

    def test_a_tag_is_found_whole(self, backend: Backend) -> None:
        """Not as a part of another tag."""
        commit_all(
            backend,
            save("a", tags=("golden", "verified")),
            save("b", after="a", tags=("gold",)),
            save("c", after="b", tags=("verified",)),
        )
        assert found(backend, Query(tag="verified")) == ids("c", "a")
        assert found(backend, Query(tag="gold")) == ids("b")
        assert found(backend, Query(tag="")) == []

    def test_a_tag_given_later_is_found_and_one_taken_away_is_not(self, backend: Backend) -> None:
        """Edits reach the filters."""
        (first,) = commit_all(backend, save("a", tags=("old",)))
        backend.commit(batch(edits=(edit(first, tags=("new",)),)))
        assert found(backend, Query(tag="new")) == ids("a")
        assert found(backend, Query(tag="old")) == []

    def test_the_trigger_auto_matches_every_event(self, backend: Backend) -> None:
        """`auto` is the family; `auto:<event>` is the one."""
        for number, trigger in enumerate(["auto", "auto:a", "auto:ab", "automatic", "manual", "AUTO:a"]):
            backend.commit(batch(row(f"{number}", trigger=trigger)))
        assert found(backend, Query(trigger="auto")) == ids("2", "1", "0")
        assert found(backend, Query(trigger="auto:a")) == ids("1")
        assert found(backend, Query(trigger="automatic")) == ids("3")

    def test_seq_is_a_filter_like_any_other(self, backend: Backend) -> None:
        """In one session, or in all of them."""
        commit_all(backend, save("a"), save("x", session="other"), save("b", after="a"))
        assert found(backend, Query(session="work", seq=2)) == ids("b")
        assert found(backend, Query(seq=1)) == ids("x", "a")
        assert found(backend, Query(session="work", seq=0)) == []

    def test_what_follows_a_checkpoint_is_found_by_it(self, backend: Backend) -> None:
        """As history has it now, not as it was saved; empty bytes find what follows nothing."""
        commit_all(backend, save("a"), save("b", after="a"), save("x", session="other"))
        beside, after = commit_all(
            backend,
            batch(row("beside", prev=checkpoint_id("a"))),
            batch(row("after", prev=checkpoint_id("b"))),
        )
        assert found(backend, Query(session="work", prev=checkpoint_id("a"))) == ids("beside", "b")
        assert found(backend, Query(session="work", prev=checkpoint_id("a"), limit=1)) == ids("beside")
        assert found(backend, Query(session="other", prev=checkpoint_id("a"))) == []
        assert found(backend, Query(prev=checkpoint_id("b"))) == ids("after")
        nothing = CheckpointId(b"")
        assert found(backend, Query(session="work", prev=nothing)) == ids("a")
        assert found(backend, Query(prev=nothing, oldest_first=True)) == ids("a", "x")
        hide = (edit(beside, hidden=1), edit(after, prev=checkpoint_id("a"), skipped=1))
        backend.commit(batch(edits=hide, operations=history(1)))
        assert found(backend, Query(session="work", prev=checkpoint_id("a"))) == ids("after", "b")
        query = Query(session="work", prev=checkpoint_id("a"), include_hidden=True, oldest_first=True)
        assert found(backend, query) == ids("b", "beside", "after")

    @pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 31, 32, 33, 63, 64])
    @pytest.mark.parametrize("name", ["00" * 32, "ff" * 32, "0a" * 32, "a0" * 32, "7f" + "ff" * 31])
    def test_an_id_is_found_by_a_prefix_of_any_length(self, backend: Backend, name: str, length: int) -> None:
        """Odd and even numbers of digits; the first and the last id there can be."""
        other = ("1" if name[length - 1] != "1" else "2").join((name[: length - 1], name[length:]))
        hit, miss = (
            row(label, id=CheckpointId(bytes.fromhex(text))) for label, text in (("h", name), ("m", other))
        )
        commit_all(backend, batch(hit), batch(miss))
        assert found(backend, Query(id_prefix=name[:length])) == [hit.id]

    def test_an_ambiguous_prefix_gives_all_of_them(self, backend: Backend) -> None:
        """Newest first, like any other question."""
        texts = ["abcd" + "0" * 60, "abcd" + "f" * 60, "abce" + "0" * 60]
        rows = [row(text, id=CheckpointId(bytes.fromhex(text))) for text in texts]
        commit_all(backend, *(batch(each) for each in rows))
        assert found(backend, Query(id_prefix="abcd")) == [rows[1].id, rows[0].id]
        assert found(backend, Query(id_prefix="abc")) == [rows[2].id, rows[1].id, rows[0].id]

    def test_since_and_until_include_their_moment(self, backend: Backend) -> None:
        """By created_at, the writer's clock."""
        for offset in range(5):
            backend.commit(batch(row(f"{offset}", created_at=START + offset), at=START - offset))
        assert found(backend, Query(since=START + 3)) == ids("4", "3")
        assert found(backend, Query(until=START + 1)) == ids("1", "0")
        assert found(backend, Query(since=START + 1, until=START + 3)) == ids("3", "2", "1")
        assert found(backend, Query(since=START + 3, until=START + 1)) == []

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_a_metadata_key_is_only_ever_a_key(self, backend: Backend, key: str) -> None:
        """Quotes, dots, dollars and SQL in it match themselves, at the top and further down."""
        commit_all(
            backend,
            with_metadata("top", {key: "v"}),
            with_metadata("deep", {"in": {key: "v"}}),
            with_metadata("other", {key + "x": "v", "a": {"b": "v"}, "b": ["v"]}),
            with_metadata("none", {}),
        )
        assert found(backend, where(key, equals="v")) == ids("top")
        assert found(backend, where("in", key, equals="v")) == ids("deep")
        assert found(backend, where(key, equals="w")) == []

    @pytest.mark.parametrize("text", HOSTILE_KEYS)
    def test_a_metadata_text_is_only_ever_a_text(self, backend: Backend, text: str) -> None:
        """The same for values."""
        commit_all(backend, with_metadata("hit", {"k": text}), with_metadata("miss", {"k": text + "x"}))
        assert found(backend, where("k", equals=text)) == ids("hit")

    def test_metadata_values_of_different_types_differ(self, backend: Backend) -> None:
        """1 is not 1.0, not "1" and not true; null is a value, and an absent key is not null."""
        values = [
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
            2**63 - 1,
        ]
        for number, value in enumerate(values):
            backend.commit(with_metadata(f"{number}", {"v": value}))
        backend.commit(with_metadata("absent", {"other": None}))
        for number, value in enumerate(values):
            assert found(backend, where("v", equals=value)) == ids(f"{number}")

    def test_neighbouring_large_numbers_differ(self, backend: Backend) -> None:
        """Whole numbers are exact, beyond what a float can tell apart."""
        for number in (2**53, 2**53 + 1, 2**62, 2**62 + 1):
            backend.commit(with_metadata(f"{number}", {"n": number}))
        assert found(backend, where("n", equals=2**53 + 1)) == ids(f"{2**53 + 1}")
        assert found(backend, where("n", equals=2**62)) == ids(f"{2**62}")

    def test_a_path_leads_through_objects_only(self, backend: Backend) -> None:
        """Not into lists or texts, and not further than there is something."""
        commit_all(
            backend,
            with_metadata("list", {"a": ["x"]}),
            with_metadata("text", {"a": "x"}),
            with_metadata("object", {"a": {"0": "x"}}),
        )
        assert found(backend, where("a", "0", equals="x")) == ids("object")
        assert found(backend, where("a", "0", "deeper", equals="x")) == []

    def test_every_metadata_pair_must_hold(self, backend: Backend) -> None:
        """Pairs are joined by and."""
        commit_all(
            backend,
            with_metadata("both", {"a": 1, "b": {"c": 2}}),
            with_metadata("one", {"a": 1, "b": {"c": 3}}),
        )
        pairs = ((("a",), "1"), (("b", "c"), "2"))
        assert found(backend, Query(metadata=pairs)) == ids("both")
        assert found(backend, Query(metadata=pairs[:1])) == ids("one", "both")

    def test_added_metadata_hides_the_original(self, backend: Backend) -> None:
        """Key by key at the top: an added key covers what was under it, the others stay."""
        (first,) = commit_all(backend, with_metadata("a", {"stage": {"x": 1, "y": 2}, "kept": 3}))
        backend.commit(batch(edits=(edit(first, added_metadata='{"stage":{"x":9},"new":null}'),)))
        assert found(backend, where("stage", "x", equals=9)) == ids("a")
        assert found(backend, where("new", equals=None)) == ids("a")
        assert found(backend, where("kept", equals=3)) == ids("a")
        assert found(backend, where("stage", "x", equals=1)) == []
        assert found(backend, where("stage", "y", equals=2)) == []

    def test_added_null_hides_the_original_too(self, backend: Backend) -> None:
        """An added null is a value, not an absence."""
        (first,) = commit_all(backend, with_metadata("a", {"k": 1}))
        backend.commit(batch(edits=(edit(first, added_metadata='{"k":null}'),)))
        assert found(backend, where("k", equals=1)) == []
        assert found(backend, where("k", equals=None)) == ids("a")

    def test_a_limit_gives_the_newest(self, backend: Backend) -> None:
        """No more than asked for, and none for none."""
        commit_all(backend, save("a"), save("b", after="a"), save("c", after="b"))
        assert found(backend, Query(limit=2)) == ids("c", "b")
        assert found(backend, Query(limit=9)) == ids("c", "b", "a")
        assert found(backend, Query(limit=0)) == []

    def test_a_limit_counts_matches(self, backend: Backend) -> None:
        """What does not match does not use it up."""
        commit_all(
            backend,
            with_metadata("old hit", {"k": 1}, status="failed"),
            with_metadata("hit", {"k": 1}, status="failed"),
            *(with_metadata(f"{n}", {"k": 2}) for n in range(4)),
        )
        assert found(backend, Query(metadata=((("k",), "1"),), limit=1)) == ids("hit")
        assert found(backend, Query(status="failed", limit=2)) == ids("hit", "old hit")

    def test_pages_by_seq_and_by_position_cover_everything_once(self, backend: Backend) -> None:
        """Before excludes its own number; pages join without gap or repeat."""
        rows = commit_all(
            backend,
            *(save(f"{n}", after=f"{n - 1}" if n else None) for n in range(5)),
            save("x", session="other"),
        )
        newest_first = [each.id for each in reversed(rows)]
        position, pages = None, []
        # Three pages of two; a fourth question finds nothing.
        for _ in range(4):
            page = self._page(backend, position)
            position = page[-1][1] if page else position
            pages += [name for name, _ in page]
        assert pages == newest_first
        assert found(backend, Query(session="work", before_seq=3)) == ids("1", "0")
        assert found(backend, Query(session="work", before_seq=1)) == []

    @staticmethod
    def _page(backend: Backend, position: int | None) -> list[tuple[CheckpointId, int]]:
        with backend.reader() as reader:
            rows = reader.checkpoints(Query(before_position=position, limit=2))
            return [(each.id, each.position) for each in rows]

    def test_removed_checkpoints_come_only_when_asked_for(self, backend: Backend) -> None:
        """With every filter that would find them."""
        first, second = commit_all(
            backend, save("a", tags=("t",), key="k"), save("b", after="a", tags=("t",), metadata='{"m":1}')
        )
        hide = (edit(first, hidden=1), edit(second, hidden=1))
        backend.commit(batch(edits=hide, operations=history(1)))
        for query in (
            {},
            {"session": "work"},
            {"tag": "t"},
            {"key": "k"},
            {"seq": 1},
            {"id_prefix": first.id.hex()},
        ):
            assert found(backend, Query(**query)) == []
            shown = found(backend, Query(**query, include_hidden=True))
            assert first.id in shown
        assert found(backend, Query(metadata=((("m",), "1"),), include_hidden=True)) == ids("b")

    def test_filters_together_must_all_hold(self, backend: Backend) -> None:
        """One checkpoint fits every filter; each neighbour misses exactly one."""
        fits = {
            "session": "work",
            "branch": "side",
            "tags": ("t",),
            "status": "failed",
            "trigger": "auto:x",
            "step": 3,
            "created_at": START + 5,
            "metadata": '{"m":1}',
        }
        misses = {
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
        for number, (name, value) in enumerate(misses.items()):
            missing = row(f"miss {number}", **(fits | {name: value}))
            backend.commit(batch(missing, session=missing.session, **claims))
        hit = row("hit", **fits)
        backend.commit(batch(hit, **claims))
        query = Query(
            session="work",
            agent="scout",
            project="acme",
            branch="side",
            tag="t",
            status="failed",
            trigger="auto",
            step=3,
            since=START + 5,
            until=START + 10,
            metadata=((("m",), "1"),),
            before_seq=100,
            before_position=1_000_000,
            limit=5,
        )
        assert found(backend, query) == [hit.id]

    def test_sessions_come_oldest_first(self, backend: Backend) -> None:
        """With the filters that narrow them."""
        commit_all(
            backend,
            save("a", session="zeta", agent="scout", at=START),
            save("b", session="alpha", agent="scout", project="acme", at=START + 1),
            save("c", session="mid", project="acme", at=START + 2),
        )
        with backend.reader() as reader:
            assert [each.id for each in reader.sessions()] == ["zeta", "alpha", "mid"]
            assert [each.id for each in reader.sessions(agent="scout")] == ["zeta", "alpha"]
            assert [each.id for each in reader.sessions(project="acme")] == ["alpha", "mid"]
            assert [each.id for each in reader.sessions(agent="scout", project="acme")] == ["alpha"]
            assert list(reader.sessions(agent="nobody")) == []
