"""Settings.load: which place wins, what each value is, what is refused, and what a hostile file can do."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ErrorCode, InvalidInputError, Settings, UnsupportedError
from holdfast.settings.files import MAX_BYTES, MOST_PROBLEMS, ConfigFile, read_file
from holdfast.settings.keys import GROUPS, SETTINGS, parse
from holdfast.settings.settings import CheckpointSettings, HeartbeatSettings, KeepSettings

KEY = "checkpoint.max_count"
AGENT = "agent:\n  checkpoints:\n    {}\n"


def refused(*args, **options) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        Settings.load(*args, **({"environ": {}} | options))
    assert caught.value.code is ErrorCode.BAD_CONFIG
    assert caught.value.hint
    return caught.value


def test_without_anything_the_defaults_count():
    settings = Settings.load(environ={})

    assert settings.checkpoint == CheckpointSettings(
        enabled=True,
        auto=True,
        interval_beats=50,
        interval_steps=None,
        interval_seconds=None,
        max_count=10,
        prune_after_days=30,
        compress=True,
        export_dir=None,
    )
    assert settings.heartbeat == HeartbeatSettings(min_interval=5.0, max_interval=120.0, session=None)
    assert set(settings.keep) == {None}
    assert (settings.session, settings.durability) == ("default", "power")
    assert {settings.origin(key) for key in SETTINGS} == {"default"}
    assert settings.to_dict() == {key: known.default for key, known in SETTINGS.items()}


def test_the_strongest_place_wins_and_is_named(write, here):
    def found(config=None, **options):
        settings = Settings.load(config, store=here / ".holdfast", **({"environ": variables} | options))
        return settings.checkpoint.max_count, settings.origin(KEY)

    variables = {"XDG_CONFIG_HOME": str(here / "xdg")}
    assert found() == (10, "default")
    write("[checkpoint]\nmax_count = 1\n", "xdg/holdfast/config.toml")
    assert found() == (1, "xdg/holdfast/config.toml")
    write("\n[tool.holdfast]\ncheckpoint.max_count = 2\n", "pyproject.toml")
    assert found() == (2, "pyproject.toml")
    write("checkpoint = {max_count = 3}\n", ".holdfast/config.toml")
    assert found() == (3, ".holdfast/config.toml")
    write("\nagent: {checkpoints: {maxCount: 4}}\n")
    assert found("agent.yaml") == (4, "agent.yaml")
    variables["HOLDFAST_CONFIG"] = "agent.yaml"
    assert found() == (4, "agent.yaml")
    write("checkpoint.max_count = 5\n", "other.TOML")
    assert found(Path("other.TOML")) == (5, "other.TOML")
    variables["HOLDFAST_CHECKPOINT_MAX_COUNT"] = "6"
    assert found() == (6, "HOLDFAST_CHECKPOINT_MAX_COUNT")
    assert found(checkpoint_max_count=7) == (7, "argument")
    assert found(checkpoint_max_count=None) == (6, "HOLDFAST_CHECKPOINT_MAX_COUNT")


def test_a_value_is_checked_although_a_stronger_one_wins(write):
    write("[tool.holdfast.checkpoint]\nmax_count = 'many'\n", "pyproject.toml")
    assert "pyproject.toml" in str(refused(checkpoint_max_count=3))


def test_a_word_switches_off_and_comes_out_as_none():
    settings = Settings.load(
        environ={"HOLDFAST_CHECKPOINT_INTERVAL_BEATS": "never", "HOLDFAST_CHECKPOINT_MAX_COUNT": "all"},
        checkpoint_prune_after_days="never",
        keep_hourly="all",
    )
    assert settings.checkpoint[3:7] == (None, None, None, None)
    assert settings.checkpoint.interval_beats is None
    assert settings.keep.hourly == "all"
    assert settings.to_dict()["checkpoint.interval_beats"] == "never"


def test_settings_are_frozen_comparable_and_can_be_carried_elsewhere():
    settings = Settings.load(environ={}, keep_tags=["a", "b"])

    assert settings.keep.tags == ("a", "b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.session = "x"  # type: ignore[misc]
    assert settings == Settings.load(environ={"HOLDFAST_KEEP_TAGS": "a,b"})
    assert len({settings, Settings.load(environ={})}) == 2
    assert copy.deepcopy(settings).origin("keep.tags") == "argument"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"checkpoint_max_cuont": 3}, "checkpoint_max_cuont"),
        ({"elephants": 3}, "elephants"),
        ({"checkpoint_max_count": True}, "not True"),
        ({"checkpoint_max_count": 10**5000}, "very many digits"),
        ({"checkpoint_max_count": 0}, "not 0"),
        ({"checkpoint_enabled": 1}, "true or false"),
        ({"checkpoint_interval_seconds": math.nan}, "not nan"),
        ({"checkpoint_interval_seconds": math.inf}, "not inf"),
        ({"heartbeat_min_interval": -1}, "not -1"),
        ({"session": ""}, "not empty"),
        ({"keep_tags": "a"}, "list of texts"),
        ({"environ": {"HOLDFAST_CHECKPOINT_MAXCOUNT": "5"}}, "HOLDFAST_CHECKPOINT_MAXCOUNT"),
        ({"environ": {"HOLDFAST_CHEKPOINT_ENABLED": "false"}}, "HOLDFAST_CHEKPOINT_ENABLED"),
        ({"environ": {"HOLDFAST_HEARTBEAT_MIN": "5"}}, "HOLDFAST_HEARTBEAT_MIN"),
        ({"environ": {"HOLDFAST_CHECKPOINT_MAX_COUNT": "-5"}}, "HOLDFAST_CHECKPOINT_MAX_COUNT"),
        ({"environ": {"HOLDFAST_CHECKPOINT_ENABLED": "maybe"}}, "maybe"),
        ({"environ": {"HOLDFAST_CHECKPOINT_INTERVAL_SECONDS": "1e3"}}, "seconds above 0"),
        ({"environ": {"HOLDFAST_CHECKPOINT_INTERVAL_SECONDS": "."}}, "seconds above 0"),
        ({"environ": {"HOLDFAST_HEARTBEAT_MIN_INTERVAL": "200.5"}}, "120 (default)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_an_argument_or_a_variable_that_cannot_be_used_is_refused(arguments, message):
    assert message in str(refused(**arguments))


def test_what_was_probably_meant_is_named(write):
    assert "did you mean checkpoint_max_count?" in refused(checkpoint_max_cuont=3).hint
    near = refused(environ={"HOLDFAST_CHECKPOINT_MAXCOUNT": "5"})
    assert near.details["candidates"] == ["HOLDFAST_CHECKPOINT_MAX_COUNT"]
    text = AGENT.format("autoCheckpiont: true")
    assert refused(write(text)).details["candidates"] == ["agent.checkpoints.autoCheckpoint"]
    with pytest.raises(InvalidInputError) as caught:
        Settings.load(environ={}).origin("checkpoint.max_conut")
    assert "did you mean checkpoint.max_count?" in caught.value.hint
    Settings.load(environ={"HOLDFAST_CHECKPOINT_MAXCOUNT": "", "HOLDFAST_ELSE": "1"})


def test_a_named_file_has_to_be_there_and_to_be_one(here, write, monkeypatch):
    (here / "folder").mkdir()
    for name in ("nowhere.yaml", "folder", "/dev/zero", "a\0b"):
        assert "cannot be read" in str(refused(name))
    monkeypatch.setenv("HOME", str(here))
    write("session: mine\n")
    assert Settings.load("~/agent.yaml", environ={}).session == "mine"


def test_the_forms_may_be_mixed_and_what_the_application_writes_beside_them_is_its_own(write):
    text = (
        "database: {url: x, pool: [1, 2]}\nsession: mine\nkeep: {last: 3, tags: [a]}\ncheckpoints: {export_dir: out}\n"
        "agent:\n  name: scout\n  checkpoints:\n    autoCheckpoint: false\n  heartbeat: {minInterval: 2}\n"
    )
    settings = Settings.load(write(text), environ={})
    assert (settings.session, settings.keep.last, settings.keep.tags) == ("mine", 3, ("a",))
    assert (settings.checkpoint.auto, settings.checkpoint.export_dir) == (False, "out")
    assert settings.heartbeat.min_interval == 2


def test_the_folder_for_files_may_be_said_with_either_name():
    for name in ("HOLDFAST_CHECKPOINTS_EXPORT_DIR", "HOLDFAST_CHECKPOINT_EXPORT_DIR"):
        assert Settings.load(environ={name: "out"}).checkpoint.export_dir == "out"
    assert Settings.load(environ={}).origin("checkpoints.export_dir") == "default"


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "agent:\n", "agent:\n  checkpoints:\n", "checkpoint: {}\n"]
)
def test_a_file_of_which_nothing_is_left_but_groups_sets_nothing(write, text):
    assert Settings.load(write(text), environ={}) == Settings.load(environ={})


@pytest.mark.parametrize(
    "text",
    [
        AGENT.format("elephants: 3"),
        AGENT.format("1: 2"),
        AGENT.format("enabled: 1"),
        AGENT.format('enabled: "true"'),
        AGENT.format("pruneAfterDays: 0"),
        AGENT.format("pruneAfterDays: 3.0"),
        AGENT.format("pruneAfterDays:"),
        AGENT.format("pruneAfterDays: [3]"),
        AGENT.format("pruneAfterDays: {a: 3}"),
        AGENT.format("enabled: true\n    enabled: true"),
        AGENT.format("auto: true\n    autoCheckpoint: true"),
        AGENT.format("enabled: &a true"),
        AGENT.format("enabled: *a"),
        AGENT.format("&a enabled: true"),
        AGENT.format("enabled: !!python/object/apply:os.system [id]"),
        AGENT.format("? [a]\n    : 1"),
        AGENT.format("a: b: c"),
        AGENT.format('enabled: "x'),
        AGENT.format("enabled: \x07"),
        AGENT.format(f"enabled: {'[' * 60_000}"),
        AGENT.format("enabled: true\n---\nsession: b"),
        "- a\n",
        "just text\n",
        "keep: 5\n",
        "agnet:\n  x: 1\n",
        "agent: {checkpoint: {enabled: true}}\n",
        b"session: \xff\n",
        "session: a\n".encode("utf-16"),
        b"# " + b"x" * (2 << 20),
    ],
    ids=lambda text: repr(text[-40:]),
)
def test_a_wrong_yaml_file_is_refused_with_its_path(write, text):
    assert refused(write(text)).details["path"] == "agent.yaml"


@pytest.mark.parametrize(
    "text",
    [
        "#" * (MAX_BYTES + 1),
        "a." * 30_000 + "b = 1",
        *(f"keep.last = {number}\n" for number in ("9" * 5000, "0x" + "f" * 5000)),
        "color = ",
        "keep = 3",
        "keep.last = true",
    ],
    ids=lambda text: text[:20],
)
def test_a_wrong_toml_file_is_refused_with_its_path(write, text):
    assert refused(write(text, "agent.toml")).details["path"] == "agent.toml"


LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "x: " * 20_000,
        "x" * (2 << 20),
        "k: '" + "y" * (MAX_BYTES - 10),
        "keep:\n" + "\n".join(f"  k{n}: {n}" for n in range(500)),
        "keep:\n  last: " + "9" * 20_000,
    ],
    ids=["laughs", "keys", "large", "open quote", "unknown keys", "digits"],
)
def test_a_hostile_file_takes_little_memory(write, text):
    Settings.load(write("session: warm\n"), environ={})
    file = ConfigFile(write(text), "named")
    problems: list[Any] = []
    tracemalloc.start()
    try:
        read_file(file, problems)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert 1 <= len(problems) <= MOST_PROBLEMS
    assert peak < 24 << 20


def test_without_the_library_it_is_said_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnsupportedError) as caught:
        Settings.load(write("session: a\n"), environ={})
    assert "pip install 'holdfast[yaml]'" in caught.value.hint


@given(st.binary(max_size=200), st.sampled_from(["agent.yaml", "agent.toml"]))
def test_any_bytes_are_settings_or_an_error(content, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            Settings.load(path, environ={})
        except InvalidInputError as error:
            assert error.code is ErrorCode.BAD_CONFIG  # noqa: PT017 - either is right


def test_every_key_has_a_typed_field_and_every_field_a_key():
    groups: dict[str, Any] = {
        "keep": KeepSettings,
        "checkpoint": CheckpointSettings,
        "heartbeat": HeartbeatSettings,
    }
    fields = [each.name for each in dataclasses.fields(Settings) if not each.name.startswith("_")]
    expected = {name for name in fields if name not in groups}
    expected |= {f"{group}.{name}" for group, record in groups.items() for name in record._fields}

    assert expected == set(SETTINGS)
    assert set(groups) == set(GROUPS)
    assert not {"config", "store", "environ"} & {known.argument for known in SETTINGS.values()}


@given(st.data())
def test_what_a_variable_gives_is_what_an_argument_gives(data):
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "checkpoint.max_count": st.integers(1, 10**10) | st.just("all"),
        "checkpoint.interval_seconds": st.integers(1, 10**9).map(lambda n: n / 64) | st.integers(1, 10**9),
        "checkpoint.auto": st.booleans(),
        "session": st.text(min_size=1),
    }
    key = data.draw(st.sampled_from(sorted(kinds)))
    value = data.draw(kinds[key])
    text = value if isinstance(value, str) else json.dumps(value)

    assert parse(key, text, "here") == value
    assert type(parse(key, text, "here")) is type(value)


@given(st.sampled_from(sorted(SETTINGS)), st.text())
def test_any_text_is_a_value_that_fits_or_an_error(key, text):
    kind = SETTINGS[key].kind
    if kind.fits(kind.read(text)):
        assert parse(key, text, "HOLDFAST_X") == kind.read(text)
        return
    with pytest.raises(InvalidInputError) as caught:
        parse(key, text, "HOLDFAST_X")
    assert caught.value.code is ErrorCode.BAD_CONFIG
