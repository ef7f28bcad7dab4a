"""docs/tour.md shows what its commands print, whoever runs them and when."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.tour import PAGE, PICTURE, PICTURED, TourError, page, picture

from holdfast.cli.app import COMMANDS

SOURCE = PAGE.read_text(encoding="utf-8")
COMMAND = re.compile(r"^\$ (?:[^\n]*\| )?holdfast (\w+)", re.MULTILINE)

FIRST = "create list show at timeline"
FIND = "diff history blame grep bisect"
CHANGE = "fork undo switch tree merge export import prune"
WAY = f"{FIRST} {FIND} {CHANGE}".split()
"""What somebody who took the tour has used, in the order of first use."""

SHORT = """\
Prose.

```console
$ echo '[1, 2]' | holdfast create "a first one" --state -
$ holdfast list
$ holdfast show '#9'  # exit 4
```

```text
$ not run
```
"""

AGENT = """\
```python
import time
import holdfast

with holdfast.open() as store:
    for step in (1, 2):
        time.sleep(3600)
        store.session().save({"step": step}, f"step {step}")
```
"""


def test_the_page_is_what_its_commands_print():
    assert page(SOURCE) == SOURCE, "make docs"


def test_the_tour_takes_the_whole_way():
    used = COMMAND.findall(SOURCE)

    assert list(dict.fromkeys(used)) == WAY
    assert set(used) <= set(COMMANDS)


def test_the_step_that_went_wrong_is_found_in_four_ways():
    for command in ("blame", "grep", "bisect", "bisect --run"):
        printed = re.search(rf"^\$ holdfast {command} .*\n((?!\$ )(?!```).*\n)+", SOURCE, re.MULTILINE)

        assert printed is not None
        assert "#6" in printed[0]
        assert "asked the wiki" in printed[0]


def test_what_commands_print_comes_below_them_and_prose_stays():
    made = page(SHORT)

    assert made.startswith(
        "Prose.\n\n```console\n$ echo '[1, 2]' | holdfast create \"a first one\" --state -\n"
    )
    assert "made a new store: sqlite:////home/you/tour/.holdfast/store.db\n" in made
    assert re.search(
        r"^\$ holdfast list\nID  .*\n[0-9a-f]{8} +#1  1m ago .* a first one\n\$ ", made, re.MULTILINE
    )
    assert made.endswith("code: checkpoint-missing\n```\n\n```text\n$ not run\n```\n")


def test_ids_and_times_are_the_same_each_time_and_what_was_edited_by_hand_is_set_right():
    made = page(SHORT)

    assert page(made.replace("a first one\n$", "another one\n$").replace("1m ago", "2m ago")) == made


def test_python_runs_and_its_sleep_takes_no_time_but_counts_as_work():
    made = page(f"{AGENT}\n```console\n$ holdfast timeline\n```\n")

    assert made.startswith(AGENT)
    assert re.search(r"09:11:00  \+5m .* step 2\n.*09:06:00 .* step 1\n", made)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("  # exit 4", "", "ended with 4, not 0"), ("# exit 4", "# exit 5", "ended with 4, not 5")],
)
def test_a_command_that_ends_otherwise_than_announced_is_an_error(old, new, said):
    with pytest.raises(TourError, match=said):
        page(SHORT.replace(old, new))


def test_python_that_fails_is_an_error():
    with pytest.raises(TourError, match="no such agent"):
        page("```python\nraise SystemExit('no such agent')\n```\n")


def test_the_settings_of_whoever_makes_it_do_not_matter(monkeypatch, tmp_path):
    expected = page(SHORT)
    for name, value in {
        "HOLDFAST_STORE": str(tmp_path / "elsewhere"),
        "HOLDFAST_SESSION": "another",
        "HOLDFAST_TIME": "iso",
        "FORCE_COLOR": "1",
        "COLUMNS": "40",
        "TZ": "Asia/Tokyo",
    }.items():
        monkeypatch.setenv(name, value)

    assert page(SHORT) == expected
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("edited", "code"), [(False, 0), (True, 1)])
def test_check_says_whether_the_page_is_up_to_date_and_writes_nothing(tmp_path, edited, code):
    tools, docs = tmp_path / "tools", tmp_path / "docs"
    tools.mkdir()
    docs.mkdir()
    for name in ("tour.py", "tour_clock.py"):
        (tools / name).write_bytes((Path(PAGE).parent.parent / "tools" / name).read_bytes())
    text = page(SHORT) + ("" if not edited else "\n```console\n$ echo one\ntwo\n```\n")
    (docs / "tour.md").write_text(text, encoding="utf-8")
    (docs / "tour.svg").write_text(picture(text), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, tools / "tour.py", "--check"], capture_output=True, text=True, check=False
    )

    assert done.returncode == code
    assert ("make docs" in done.stdout) is edited
    assert (docs / "tour.md").read_text(encoding="utf-8") == text


def test_the_picture_shows_what_the_page_shows():
    drawn = PICTURE.read_text(encoding="utf-8")
    assert all(f"$ {html.escape(each)}" in drawn for each in PICTURED)
