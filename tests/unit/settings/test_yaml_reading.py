"""A YAML file of settings: both of its forms, its lines, and what is refused in it."""

from __future__ import annotations

import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from holdfast import ErrorCode, InvalidInputError, Settings, UnsupportedError
from holdfast.settings.files import ConfigFile
from holdfast.settings.reading import MOST_PROBLEMS, read_file
from holdfast.settings.yaml_reading import MAX_YAML_BYTES, yaml_entries

DOCUMENT = """\
# ctx-sys.yaml
agent:
  checkpoints:
    enabled: false
    autoCheckpoint: false
    maxCheckpointsPerSession: 7
    pruneAfterDays: 14
    compressState: false       # Compress large states
"""
WANTED = {
    "checkpoint.enabled": (False, 4),
    "checkpoint.auto": (False, 5),
    "checkpoint.max_count": (7, 6),
    "checkpoint.prune_after_days": (14, 7),
    "checkpoint.compress": (False, 8),
}


def read(text: str) -> dict[str | None, tuple[Any, int]]:
    return {entry.key: (entry.value, entry.line()) for entry in yaml_entries(text, "agent.yaml")}


def refused(text: str | bytes, write: Any) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        Settings.load(write(text), environ={})
    assert caught.value.code is ErrorCode.BAD_CONFIG
    assert caught.value.hint
    return caught.value


def test_the_form_of_the_source_documents_is_read_with_its_lines():
    assert read(DOCUMENT) == WANTED


def test_names_may_be_in_snake_case():
    snake = DOCUMENT
    for camel, other in [
        ("autoCheckpoint", "auto_checkpoint"),
        ("maxCheckpointsPerSession", "max_checkpoints_per_session"),
        ("pruneAfterDays", "prune_after_days"),
        ("compressState", "compress_state"),
    ]:
        snake = snake.replace(camel, other)
    assert read(snake) == WANTED


def test_the_form_of_the_toml_files_works_beside_it():
    text = (
        "session: mine\nkeep: {last: 3, tags: [a, b]}\ncheckpoint:\n  interval_steps: 5\n  intervalSeconds: 1.5\n"
        'agent:\n  checkpoints:\n    intervalBeats: never\n  heartbeat: {minInterval: 1, session: "on"}\n'
    )
    assert read(text) == {
        "session": ("mine", 1),
        "keep.last": (3, 2),
        "keep.tags": (["a", "b"], 2),
        "checkpoint.interval_steps": (5, 4),
        "checkpoint.interval_seconds": (1.5, 5),
        "checkpoint.interval_beats": ("never", 8),
        "heartbeat.min_interval": (1, 9),
        "heartbeat.session": ("on", 9),
    }


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "agent:\n", "agent:\n  checkpoints:\n", "checkpoint: {}\n"]
)
def test_a_file_of_which_nothing_is_left_but_groups_sets_nothing(text):
    assert read(text) == {}


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "autoCheckpiont: true",
            "unknown key 'agent.checkpoints.autoCheckpiont'",
            "checkpoints.autoCheckpoint?",
        ),
        (
            "max_cuont: 3",
            "unknown key 'agent.checkpoints.max_cuont'",
            "did you mean agent.checkpoints.max_count?",
        ),
        ("elephants: 3", "unknown key 'agent.checkpoints.elephants'", "holdfast config lists the keys"),
        ("<<: {}", "unknown key 'agent.checkpoints.<<'", "take line 4 out of agent.yaml"),
        ("1: 2", "unknown key 'agent.checkpoints.1'", "lists the keys"),
        (
            "enabled: 1",
            "agent.checkpoints.enabled in agent.yaml line 4 has to be true or false, not 1",
            "line 4",
        ),
        ('enabled: "true"', "has to be true or false, not 'true'", "mend the line"),
        ("pruneAfterDays: 0", 'has to be a whole number from 1, or "never", not 0', "mend the line"),
        ("pruneAfterDays: 010", "or \"never\", not '010'", "mend the line"),
        ("pruneAfterDays: 1:30", "or \"never\", not '1:30'", "mend the line"),
        ("pruneAfterDays: 3.0", 'or "never", not 3.0', "mend the line"),
        ("pruneAfterDays:", 'or "never", not None', "mend the line"),
        ("pruneAfterDays: [3]", 'or "never", not [3]', "mend the line"),
        ("pruneAfterDays: {}", 'or "never", not {}', "mend the line"),
        ("pruneAfterDays: {a: 3}", "unknown key 'agent.checkpoints.pruneAfterDays.a'", "did you mean"),
        ("intervalSeconds: .inf", "seconds above 0, or \"never\", not '.inf'", "mend the line"),
        ("enabled: true\n    enabled: true", "line 5 has the key 'enabled' of line 4 again", "take one"),
        (
            "auto: true\n    autoCheckpoint: true",
            "line 5 sets agent.checkpoints.autoCheckpoint, and line 4",
            "take",
        ),
        ("enabled: &a true", "line 4 has an anchor or an alias", "quote it"),
        ("enabled: *a", "line 4 has an anchor or an alias", "quote it"),
        ("&a enabled: true", "line 4 has an anchor or an alias", "quote it"),
        ("enabled: !!bool true", "line 4 has a tag", "without it"),
        ("enabled: !!python/object/apply:os.system [id]", "line 4 has a tag", "without it"),
        ("!!str enabled: true", "line 4 has a tag", "without it"),
        ("? [a]\n    : 1", "line 4 has a key that is no text", "the name of a setting"),
        ("a: b: c", "line 4 is not YAML: mapping values are not allowed here", "mend the line"),
        ('enabled: "x', "is not YAML: found unexpected end of stream", "mend the line"),
        ('"a\\x07": 1', "line 4 has the control character '\\x07'", "take it out"),
        ("enabled: \x07", "line 4 has the control character '\\x07'", "take it out"),
        ("enabled: \x00", "line 4 has the control character '\\x00'", "take it out"),
        (f"enabled: {'[' * 60_000}", "line 4 is nested deeper than 8", "three deep"),
        (f"enabled: {'{a: ' * 10_000}", "line 4 is nested deeper than 8", "three deep"),
        (f"enabled:\n      {'- ' * 20_000}", "line 5 is nested deeper than 8", "three deep"),
        ("enabled: true\n---\nsession: b", "line 5 begins a second document", "leave one"),
    ],
    ids=lambda text: repr(text[:30]),
)
def test_what_is_wrong_is_named_with_file_and_line(write, line, message, hint):
    error = refused(f"\nagent:\n  checkpoints:\n    {line}\n", write)

    assert message in str(error)
    assert "agent.yaml" in str(error)
    assert hint in error.hint
    assert error.details["line"] in (4, 5)
    assert error.details["path"] == "agent.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "agent.yaml line 1 is not made of keys and values"),
        ("just text\n", "agent.yaml line 1 is not made of keys and values"),
        ("agent: 5\n", "line 1 gives agent a value, and it is a group of settings"),
        ("agent:\n  checkpoints: [1]\n", "line 2 gives agent.checkpoints a value"),
        (
            "agent:\n  checkpoint:\n    enabled: true\n",
            "unknown key 'agent.checkpoint.enabled' in agent.yaml line 3",
        ),
        ("agnet:\n  x: 1\n", "unknown key 'agnet.x' in agent.yaml line 2"),
        (
            "agent:\n  checkpoints:\n    folder: x\n",
            "unknown key 'agent.checkpoints.folder' in agent.yaml line 3",
        ),
        ("%YAML 9.9\n---\nsession: a\n", "agent.yaml line 1 is not YAML: found incompatible YAML document"),
        (b"session: \xff\n", "agent.yaml cannot be read: not UTF-8 (byte 0xff)"),
        ("session: a\n".encode("utf-16"), "agent.yaml cannot be read: not UTF-8"),
        (b"# " + b"x" * (2 << 20), "agent.yaml cannot be read: it has more than 64 KiB"),
    ],
    ids=lambda text: repr(text[:30]),
)
def test_a_file_that_is_something_else_is_refused(write, text, message):
    assert message in str(refused(text, write))


def test_what_an_application_writes_beside_it_is_its_own(write):
    text = (
        "database: {url: x, pool: [1, 2]}\nagent:\n  name: scout\n  checkpoints:\n    autoCheckpoint: false\n"
    )

    assert Settings.load(write(text), environ={}).checkpoint.auto is False


LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "x: " * 20_000,
        "[" * MAX_YAML_BYTES,
        "{" * MAX_YAML_BYTES,
        "x" * (2 << 20),
        "k: '" + "y" * (MAX_YAML_BYTES - 10),
        "keep:\n" + "\n".join(f"  k{n}: {n}" for n in range(500)),
        "keep:\n  last: " + "9" * 20_000,
    ],
    ids=["laughs", "keys", "lists", "maps", "large", "open quote", "unknown keys", "digits"],
)
def test_a_hostile_file_takes_little_memory(write, text):
    Settings.load(write("session: warm\n"), environ={})
    file = ConfigFile(write(text), "named")
    problems: list[Any] = []
    tracemalloc.start()
    try:
        read_file(file, problems=problems)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert 1 <= len(problems) <= MOST_PROBLEMS
    assert peak < 16 << 20


def test_what_is_refused_at_the_beginning_is_not_read_to_the_end():
    # In the C parser of PyYAML, and in compose(), all of it is read first.
    before = "session: &a x\n"
    with pytest.raises(InvalidInputError, match="anchor"):
        list(yaml_entries(before + "?" * 1_000_000, "agent.yaml"))


def test_without_the_library_it_is_said_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(UnsupportedError, match="PyYAML") as caught:
        Settings.load(write(DOCUMENT), environ={})

    assert caught.value.code is ErrorCode.NOT_SUPPORTED
    assert "pip install 'holdfast[yaml]'" in caught.value.hint
    assert Settings.load(write("session = 'a'", "agent.toml"), environ={}).session == "a"


KEYS = {
    "session": "session",
    "checkpoint.enabled": "agent.checkpoints.enabled",
    "checkpoint.auto": "agent.checkpoints.autoCheckpoint",
    "checkpoint.interval_beats": "agent.checkpoints.intervalBeats",
    "checkpoint.interval_seconds": "agent.checkpoints.interval_seconds",
    "checkpoint.max_count": "agent.checkpoints.maxCheckpointsPerSession",
    "checkpoint.compress": "agent.checkpoints.compress_state",
    "heartbeat.session": "agent.heartbeat.session",
    "keep.tags": "keep.tags",
}
# What YAML can hold without an escape for a control character.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufeff\u2028\u2029"), min_size=1
)
VALUES = {
    "session": TEXTS,
    "checkpoint.enabled": st.booleans(),
    "checkpoint.auto": st.booleans(),
    "checkpoint.interval_beats": st.integers(1, 10**9) | st.just("never"),
    "checkpoint.interval_seconds": st.integers(1, 10**6) | st.integers(1, 10**6).map(lambda n: n / 8),
    "checkpoint.max_count": st.integers(1, 10**9) | st.just("all"),
    "checkpoint.compress": st.booleans(),
    "heartbeat.session": TEXTS,
    "keep.tags": st.lists(TEXTS, max_size=3),
}


@given(st.fixed_dictionaries({}, optional=VALUES), st.booleans(), st.booleans())
def test_whatever_a_library_writes_is_read_back(values, own_form, flow):
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *groups, name = (key if own_form else KEYS[key]).split(".")
        here = tree
        for group in groups:
            here = here.setdefault(group, {})
        here[name] = value
    text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True, sort_keys=False, width=10**6)

    found = read(text)

    assert {key: value for key, (value, _) in found.items()} == values
    assert all(type(found[key][0]) is type(value) for key, value in values.items())
    if not flow:
        lines = text.split("\n")
        for key, (_, line) in found.items():
            name = (str(key) if own_form else KEYS[str(key)]).rpartition(".")[2]
            assert lines[line - 1].strip().startswith(f"{name}:")


WORDS = ["agent", "checkpoints", "enabled", "auto", "session", "true", "---", "...", "<<", "&a", "*a", "!!x"]
PIECES = st.sampled_from([*WORDS, ": ", "- ", "  ", "\n", *":[]{}!'\"|>#%?\\\t3@`,"])


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=60))
@example("session: |\n  a\n")
@example("? \n: \n")
@example('"\\ud800": 1')
@example('"\\U00110000": 1')
@example('"\\UFFFFFFFF": 1')
@example(f"%YAML {'1' * 5000}.1\n---\na: 1")
@example("\ufeffsession: a")
def test_any_text_is_settings_or_an_error_with_a_line(text):
    problems: list[Any] = []
    found: dict[str | None, tuple[Any, int]] = {}
    try:
        found = read(text)
    except InvalidInputError as error:
        problems.append(error)
    lines = [error.details["line"] for error in problems] + [line for _, line in found.values()]
    # A line after the last is where something is missing.
    assert all(1 <= line <= len(text.splitlines()) + 2 for line in lines)
    assert all(error.code is ErrorCode.BAD_CONFIG for error in problems)


@given(st.binary(max_size=40), st.sampled_from(["a.yaml", "a.toml"]))
def test_any_bytes_are_settings_or_an_error(content, name):
    assume(b"session" not in content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        problems: list[Any] = []
        read_file(ConfigFile(str(path), "named"), lines=True, problems=problems)
    assert all(error.code is ErrorCode.BAD_CONFIG for error in problems)
