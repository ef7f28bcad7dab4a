"""Lineage as data and as a drawing: the drawings here were made by hand, and the program has to make the same."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

import pytest

import holdfast
from holdfast.cli.graph import ASCII, UNICODE, Signs, draw
from holdfast.errors import IntegrityError
from holdfast.history.tree import Tree, lineage
from holdfast.storage.records import BranchRow, SessionRow
from holdfast.testing.rows import START, checkpoint_id, row

OWNER = SessionRow(id="work", agent="scout", project=None, created_at=START)


def tree(
    text: str,
    others: Mapping[str, str] | None = None,
    *,
    current: str = "main",
    more: bool = False,
    **heads: str,
) -> Tree:
    """The lineage of rows written as `label: prev further-parents ; field=value`, newest first."""
    lines = [line.strip() for line in text.strip().splitlines()]
    rows = []
    for seq, line in zip(range(len(lines), 0, -1), lines, strict=True):
        links, _, extra = line.partition(";")
        label, _, parents = links.partition(":")
        ids = tuple(None if each == "-" else checkpoint_id(each) for each in parents.split())
        fields = dict(each.split("=") for each in extra.split())
        rows.append(
            row(
                label,
                seq=seq,
                branch=fields.get("branch", "main"),
                prev=ids[0] if ids else None,
                parents=tuple(each or checkpoint_id("gone") for each in ids),
                skipped=int(fields.get("skipped", 0)),
                tags=tuple(fields["tags"].split(",")) if "tags" in fields else (),
                pinned="pinned" in fields,
            )
        )
    branches = [
        BranchRow("work", name, checkpoint_id(at), START) for name, at in (heads | dict(others or {})).items()
    ]
    return lineage(rows, branches, OWNER, current, more=more)


def labels(shown: Tree) -> dict[str, str]:
    return {node.checkpoint.id: node.checkpoint.message.removeprefix("about ") for node in shown}


def drawing(shown: Tree, *, fold: int | None = None, signs: Signs = UNICODE) -> str:
    """The graph with the labels of the checkpoints beside it."""

    def sign(each):
        if each.kind != "checkpoint":
            return signs.folded
        node = shown.nodes[each.points[0]]
        return signs.of(node.checkpoint, current=node.current)

    lines = []
    for text, each in draw(shown.rows(fold=fold), signs, sign):
        said = ""
        if each is not None and each.kind == "checkpoint":
            said = " " + labels(shown)[shown.nodes[each.points[0]].checkpoint.id]
        elif each is not None:
            said = f" {each.kind} {len(each.points)}"
        lines.append(text + said)
    return "\n".join(lines)


def same(drawn: str, expected: str) -> None:
    assert drawn == dedent(expected).strip("\n"), f"\n{drawn}"


def test_a_fork_is_drawn_where_the_lines_part():
    shown = tree("d: b ;branch=idea\nc: b\nb: a\na:", main="c", idea="d")

    same(
        drawing(shown),
        """
          ○ d
        @ │ c
        ├─╯
        ○ b
        ○ a
        """,
    )
    same(
        drawing(shown, signs=ASCII),
        """
          o d
        @ | c
        +-'
        o b
        o a
        """,
    )


def test_a_merge_opens_a_lane_that_is_that_of_the_merged_line():
    same(
        drawing(tree("m: c d\nd: b ;branch=idea\nc: b\nb: a\na:", main="m", idea="d")),
        """
        @ m
        ├─╮
        │ ○ d
        ○ │ c
        ├─╯
        ○ b
        ○ a
        """,
    )


def test_a_line_whose_branch_was_deleted_is_there_and_known_by_it():
    shown = tree("e: c ;branch=gone\nd: b\nc: b ;branch=gone\nb: a\na:", main="d")

    same(
        drawing(shown),
        """
          ○ e
        @ │ d
        │ ○ c
        ├─╯
        ○ b
        ○ a
        """,
    )
    found = {labels(shown)[node.checkpoint.id]: node for node in shown}
    assert [name for name, node in found.items() if not node.on_branch] == ["e", "c"]
    assert [name for name, node in found.items() if node.tip and not node.on_branch] == ["e"]


LONG = "\n".join(f"n{n}: n{n - 1} {';tags=keep' if n == 20 else ''}" for n in range(40, 0, -1)).replace(
    "n1: n0", "n1:"
)


def test_runs_without_anything_special_are_folded_but_for_their_ends():
    same(
        drawing(tree(LONG, main="n40"), fold=2),
        """
        @ n40
        ○ n39
        ○ n38
        … folded 15
        ○ n22
        ○ n21
        ○ n20
        ○ n19
        ○ n18
        … folded 14
        ○ n3
        ○ n2
        ○ n1
        """,
    )


def test_a_link_that_leads_nowhere_is_damage():
    with pytest.raises(IntegrityError, match="is not in the store"):
        tree("b: a", main="b")
    with pytest.raises(IntegrityError, match="does not come before it"):
        tree("a:\nb: a", main="b")
    with pytest.raises(IntegrityError, match="does not come before it"):
        tree("c:\nb: a c\na:", main="b")
    tree("b: a", main="b", more=True)


def test_the_record_is_plain_data():
    shown = tree("m: c d\nd: b ;branch=idea\nc: b ;skipped=2\nb: a ;tags=x\na:", main="m", old="c", idea="d")

    plain = shown.to_dict()

    assert (plain["session"], plain["branch"], plain["more"]) == ("work", "main", False)
    assert plain["roots"] == [checkpoint_id("a").hex()]
    brief = [
        (
            labels(shown)[each["checkpoint"]["id"]],
            each["lane"],
            each["branches"],
            each["fork"],
            each["skipped"],
        )
        for each in plain["nodes"]
    ]
    assert brief == [
        ("m", 0, ["main"], False, 0),
        ("d", 1, ["idea"], False, 0),
        ("c", 0, ["old"], True, 2),
        ("b", 0, [], True, 0),
        ("a", 0, [], False, 0),
    ]
    assert [node.current for node in shown] == [True, False, False, False, False]
    assert [node.tip for node in shown] == [True, False, False, False, False]
    assert len(shown) == 5


@pytest.fixture
def store():
    with holdfast.open("memory:") as opened:
        yield opened


def test_a_session_gives_its_tree(store):
    session = store.session("work")
    ids = [session.save(n, str(n)) for n in range(4)]
    store.session("work").save(9, "beside", parent=ids[1])
    session.delete("#3")

    shown = session.tree()

    assert [node.checkpoint.message for node in shown] == ["beside", "3", "1", "0"]
    assert [node.branches for node in shown] == [("main-1",), ("main",), (), ()]
    assert shown.nodes[1].skipped == 1
    assert shown.nodes[2].fork
    assert shown.lanes() == [1, 0, 0, 0]
    assert shown.branch == "main"
    assert [node.checkpoint for node in shown] == store.find(session="work")


def test_a_limit_gives_the_newest_and_says_that_there_are_more(store):
    session = store.session("work")
    for n in range(4):
        session.save(n, str(n))

    assert [node.checkpoint.message for node in session.tree(limit=2)] == ["3", "2"]
    assert [session.tree(limit=n).more for n in (3, 4, 5)] == [True, False, False]
    with pytest.raises(holdfast.InvalidInputError):
        session.tree(limit=0)
