"""When colour is used (C6)."""

from __future__ import annotations

import io

import pytest

from holdfast.cli.terminal import use_color


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "environ", "on_terminal", "in_pipe"),
    [
        ("auto", {}, True, False),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {"NO_COLOR": "1"}, False, False),
        ("auto", {"NO_COLOR": ""}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, True, True),
        ("auto", {"FORCE_COLOR": "0"}, True, False),
        ("auto", {"CLICOLOR_FORCE": "1"}, True, True),
        ("auto", {"CLICOLOR_FORCE": "0"}, True, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ("auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ("always", {}, True, True),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, True, True),
        ("never", {}, False, False),
        ("never", {"FORCE_COLOR": "1"}, False, False),
    ],
)
def test_colour_follows_the_option_then_the_environment_then_the_terminal(
    choice, environ, on_terminal, in_pipe
):
    assert use_color(choice, Tty(), environ) is on_terminal
    assert use_color(choice, io.StringIO(), environ) is in_pipe


def test_a_closed_stream_gets_no_colour():
    stream = io.StringIO()
    stream.close()

    assert use_color("auto", stream, {}) is False


def test_stdout_and_stderr_are_judged_separately(terminal):
    seen = terminal("create", "hello", "--store", "s")

    assert "\x1b[" in seen.screen
    assert seen.stderr
    assert "\x1b[" not in seen.stderr


def test_an_error_is_coloured_on_a_terminal_and_plain_in_a_pipe(terminal, process):
    assert "\x1b[31merror:\x1b[0m" in terminal("nonsense", both=True).screen
    assert process("nonsense").stderr.startswith("error: ")
    assert process("nonsense", "--color", "always").stderr.startswith("\x1b[31merror:")


@pytest.mark.parametrize("args", [("list",), ("list", "--json"), ("show",), ("show", "--json")])
def test_data_in_a_pipe_is_never_coloured(run, process, args):
    run("create", "hello", "--tags", "a")

    forced = process(*args, FORCE_COLOR="1")

    assert forced.returncode == 0
    assert "\x1b" not in forced.stdout
