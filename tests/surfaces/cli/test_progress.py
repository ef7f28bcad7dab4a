"""Progress on stderr (C8)."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from holdfast.cli._terminal import size_text

PROGRAM = """
import sys, threading, time, types
from holdfast.cli import _progress
from holdfast.cli._settings import Settings

# However slow the machine is: no second passes, and no line is drawn before all is reported.
_progress.time = types.SimpleNamespace(monotonic=lambda: 0.0)
reported, twice, lines = threading.Event(), threading.Event(), []
line, write = _progress._Work.line, _progress._write

def line_of_the_end(work):
    reported.wait()
    return line(work)

def write_and_count(text):
    write(text)
    lines.extend(["counting"] * text.count("counting"))
    if len(lines) > 1:
        twice.set()

_progress._Work.line, _progress._write = line_of_the_end, write_and_count
settings = Settings(json="--json" in sys.argv)
settings.no_progress = "--no-progress" in sys.argv
for word in sys.argv[1:]:
    if "=" in word:
        name, value = word.split("=")
        setattr(_progress, name, float(value))
with _progress.progress(settings, "counting", total=2000, unit="sheep") as update:
    for number in range(1, 1001):
        update(number)
    reported.set()
    if "--until-drawn" in sys.argv:
        twice.wait(60)
    if "--wait" in sys.argv:
        time.sleep(0.2)
print("data")
"""


MEASURED = """
import time
from holdfast.cli import _progress
from holdfast.cli._settings import Settings

_progress.FIRST = _progress.EVERY = 0.01
sizes = iter([None, 10, 50])
reached = []
def measure():
    reached.append(next(sizes, 100))
    return reached[-1]
with _progress.progress(Settings(), "copying", 100, unit="bytes", measure=measure):
    while 100 not in reached:
        time.sleep(0.01)
"""


def test_work_that_reports_nothing_is_measured(talk):
    screen = talk([sys.executable, "-c", MEASURED]).screen

    for line in ("0%  0 B of", "10%  10 B of", "50%  50 B of", "100%  100 B of"):
        assert f"copying  {line} 100 B  " in screen


def command(*words):
    return [sys.executable, "-c", PROGRAM, *words]


def in_a_pipe(*words):
    return subprocess.run(command(*words), capture_output=True, text=True, check=True)


def test_a_terminal_gets_one_line_that_is_drawn_over_itself_and_goes_away(talk):
    screen = talk(command("FIRST=0.01", "EVERY=0.01", "--until-drawn")).screen

    assert "counting  50%  1,000 of 2,000 sheep  0s" in screen
    assert len(re.findall("counting", screen)) > 1
    assert screen.endswith("\r\x1b[Kdata\n")
    assert screen.count("\n") == 1


def test_work_that_is_done_in_half_a_second_says_nothing(talk):
    assert talk(command("FIRST=30", "--wait")).screen == "data\n"


def test_a_log_gets_lines_that_stay_and_few_of_them():
    often = in_a_pipe("IN_A_LOG=0.03", "FIRST=0.001", "--until-drawn")
    seldom = in_a_pipe("FIRST=0.001", "EVERY=0.001", "--wait")

    assert set(often.stderr.splitlines()) == {"counting  50%  1,000 of 2,000 sheep  0s"}
    assert "\x1b" not in often.stderr
    assert often.stdout == seldom.stdout == "data\n"
    assert seldom.stderr == ""


@pytest.mark.parametrize("flag", ["--no-progress", "--json"])
def test_nothing_is_said_to_those_who_do_not_want_it(talk, flag):
    assert talk(command("FIRST=0.01", "IN_A_LOG=0.01", "--wait", flag)).screen == "data\n"
    assert in_a_pipe("FIRST=0.01", "IN_A_LOG=0.01", "--wait", flag).stderr == ""


def test_a_terminal_that_cannot_draw_is_a_log(talk):
    screen = talk(command("FIRST=0.01", "IN_A_LOG=30", "--wait"), TERM="dumb").screen

    assert screen == "data\n"


def test_a_stderr_that_is_gone_does_not_stop_the_work():
    read, write = os.pipe()
    os.close(read)
    words = command("IN_A_LOG=0.01", "--wait")
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=write, text=True, check=False)
    os.close(write)

    assert done.stdout == "data\n"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (5_000_000_000, "5.0 GB"),
        (7_000_000_000_000_000, "7,000.0 TB"),
    ],
)
def test_sizes_are_short(count, text):
    assert size_text(count) == text
