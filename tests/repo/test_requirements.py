"""Every due point of docs/requirements.md has a scenario, and every scenario names a point that exists."""

from __future__ import annotations

import re
import textwrap

from tools.requirements import LIST, Requirement, problems, requirements, scenarios


def test_every_due_requirement_has_a_scenario_and_every_marker_names_one():
    assert problems(requirements(), scenarios()) == []


def test_every_row_of_the_page_is_read():
    rows = [
        line for line in LIST.read_text(encoding="utf-8").splitlines() if re.match(r"\|\s*[A-Z]+\d", line)
    ]

    assert len(requirements()) == len(rows)
    assert [each.id for each in requirements()] == [
        *(f"H{number}" for number in range(1, 13)),
        *(f"T{number}" for number in range(1, 14)),
        *(f"P{number}" for number in range(1, 9)),
        *(f"K{number}" for number in range(1, 14)),
        *(f"C{number}" for number in range(1, 12)),
    ]


def test_markers_are_found_on_functions_classes_and_modules(tmp_path):
    (tmp_path / "test_one.py").write_text(
        textwrap.dedent(
            """
            import pytest

            pytestmark = [pytest.mark.requirement("A1")]

            @pytest.mark.requirement("B1", "B2")
            class TestIt:
                @pytest.mark.requirement("C1")
                async def test_inside(self): ...

            @pytest.mark.requirement("D1")
            @pytest.mark.skip(reason="shows nothing")
            def test_skipped(): ...

            @pytest.mark.requirement("E1")
            def not_a_test(): ...
            """
        )
    )

    inside = ["test_one.py::TestIt::test_inside"]
    assert scenarios(tmp_path) == {"A1": inside, "B1": inside, "B2": inside, "C1": inside}


def test_a_due_point_without_a_scenario_and_an_unknown_marker_are_problems():
    listed = [
        Requirement("T1", "due", "is not shown"),
        Requirement("T2", "later", "need not be shown"),
        Requirement("T2", "soon", "is listed twice, with a strange status"),
    ]

    assert [sentence.split()[:3] for sentence in problems(listed, {"Z9": ["test_z.py::test_z"]})] == [
        ["T2", "is", "listed"],
        ["T2", "is", "'soon';"],
        ["T1", "is", "due,"],
        ["Z9", "is", "not"],
    ]
