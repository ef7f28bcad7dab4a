"""Settings.load: which place wins, what each value is, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import ErrorCode, InvalidInputError, Settings
from holdfast.settings.keys import GROUPS, SETTINGS, parse
from holdfast.settings.loaded import CheckpointSettings, HeartbeatSettings, KeepSettings
from holdfast.settings.reading import MAX_BYTES

KEY = "checkpoint.max_count"


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
    assert found() == (1, "xdg/holdfast/config.toml line 2")
    write("\n[tool.holdfast]\ncheckpoint.max_count = 2\n", "pyproject.toml")
    assert found() == (2, "pyproject.toml line 3")
    write("checkpoint = {max_count = 3}\n", ".holdfast/config.toml")
    assert found() == (3, ".holdfast/config.toml line 1")
    write("\nagent: {checkpoints: {maxCount: 4}}\n")
    assert found("agent.yaml") == (4, "agent.yaml line 2")
    variables["HOLDFAST_CONFIG"] = "agent.yaml"
    assert found() == (4, "agent.yaml line 2")
    write("checkpoint.max_count = 5\n", "other.TOML")
    assert found(Path("other.TOML")) == (5, "other.TOML line 1")
    variables["HOLDFAST_CHECKPOINT_MAX_COUNT"] = "6"
    assert found() == (6, "HOLDFAST_CHECKPOINT_MAX_COUNT")
    assert found(checkpoint_max_count=7) == (7, "argument")
    assert found(checkpoint_max_count=None) == (6, "HOLDFAST_CHECKPOINT_MAX_COUNT")


def test_the_variables_of_the_process_count_where_none_are_given(monkeypatch):
    monkeypatch.setenv("HOLDFAST_CHECKPOINT_ENABLED", "no")

    assert not Settings.load().checkpoint.enabled
    assert Settings.load(environ={}).checkpoint.enabled


def test_a_value_is_checked_although_a_stronger_one_wins(write):
    write("[tool.holdfast.checkpoint]\nmax_count = 'many'\n", "pyproject.toml")

    assert "pyproject.toml line 2" in str(refused(checkpoint_max_count=3))


def test_a_word_switches_off_and_comes_out_as_none():
    settings = Settings.load(
        environ={"HOLDFAST_CHECKPOINT_INTERVAL_BEATS": "never", "HOLDFAST_CHECKPOINT_MAX_COUNT": "all"},
        checkpoint_prune_after_days="never",
        keep_hourly="all",
    )

    assert settings.checkpoint.interval_beats is None
    assert settings.checkpoint.max_count is None
    assert settings.checkpoint.prune_after_days is None
    assert settings.keep.hourly == "all"
    assert settings.to_dict()["checkpoint.interval_beats"] == "never"


def test_settings_are_frozen_comparable_and_can_be_carried_elsewhere():
    settings = Settings.load(environ={}, keep_tags=["a", "b"])

    assert settings.keep.tags == ("a", "b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.session = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        settings.checkpoint.auto = False  # type: ignore[misc]
    assert settings == Settings.load(environ={"HOLDFAST_KEEP_TAGS": "a,b"})
    assert len({settings, Settings.load(environ={})}) == 2
    assert copy.deepcopy(settings) == settings
    assert copy.deepcopy(settings).origin("keep.tags") == "argument"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            {"checkpoint_max_cuont": 3},
            "no setting 'checkpoint_max_cuont'",
            "did you mean checkpoint_max_count?",
        ),
        ({"elephants": 3}, "there is no setting 'elephants'", "help(holdfast.Settings)"),
        ({"checkpoint_max_count": True}, 'max_count has to be a whole number from 1, or "all", not True', ""),
        ({"checkpoint_max_count": 10**5000}, "not a number of very many digits", ""),
        ({"checkpoint_max_count": 0}, "not 0", ""),
        ({"checkpoint_enabled": 1}, "has to be true or false, not 1", ""),
        ({"checkpoint_interval_seconds": math.nan}, 'above 0, or "never", not nan', ""),
        ({"checkpoint_interval_seconds": math.inf}, 'above 0, or "never", not inf', ""),
        ({"heartbeat_min_interval": -1}, "has to be a number of seconds above 0, not -1", ""),
        ({"heartbeat_min_interval": 10**400}, "has to be a number of seconds above 0", ""),
        ({"session": ""}, "has to be a text that is not empty", ""),
        ({"keep_tags": "a"}, "has to be a list of texts", ""),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_argument_that_cannot_be_used_is_refused(arguments, message, hint):
    error = refused(**arguments)

    assert message in str(error)
    assert hint in error.hint


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("HOLDFAST_CHECKPOINT_MAXCOUNT", "5", "there is no variable 'HOLDFAST_CHECKPOINT_MAXCOUNT'"),
        ("HOLDFAST_HEARTBEAT_MIN", "5", "there is no variable 'HOLDFAST_HEARTBEAT_MIN'"),
        (
            "HOLDFAST_CHECKPOINT_MAX_COUNT",
            "-5",
            "HOLDFAST_CHECKPOINT_MAX_COUNT: checkpoint.max_count has to be",
        ),
        ("HOLDFAST_CHECKPOINT_ENABLED", "maybe", "has to be true or false, not 'maybe'"),
        ("HOLDFAST_CHECKPOINT_INTERVAL_SECONDS", "1e3", "has to be a number of seconds above 0"),
        ("HOLDFAST_CHECKPOINT_INTERVAL_SECONDS", ".", "has to be a number of seconds above 0"),
        ("HOLDFAST_CHECKPOINT_INTERVAL_SECONDS", "nan", "has to be a number of seconds above 0"),
        ("HOLDFAST_CHECKPOINT_INTERVAL_SECONDS", "0", "has to be a number of seconds above 0"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(name, text, message):
    assert message in str(refused(environ={name: text}))


def test_the_near_variable_is_named():
    assert (
        "did you mean HOLDFAST_CHECKPOINT_MAX_COUNT?"
        in refused(environ={"HOLDFAST_CHECKPOINT_MAXCOUNT": "5"}).hint
    )
    Settings.load(environ={"HOLDFAST_CHECKPOINT_MAXCOUNT": "", "HOLDFAST_ELSE": "1"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("1", True), ("on", True), ("No", False), ("0", False)],
)
def test_a_flag_is_read_as_people_write_it(text, value):
    assert Settings.load(environ={"HOLDFAST_CHECKPOINT_AUTO": text}).checkpoint.auto is value


def test_a_file_that_was_named_and_is_not_there_is_refused(here):
    (here / "folder").mkdir()

    error = refused("nowhere.yaml")
    assert str(error) == "nowhere.yaml cannot be read: No such file or directory"
    assert "HOLDFAST_CONFIG" in error.hint
    assert "it is not a file" in str(refused("folder"))
    assert "it is not a file" in str(refused("/dev/zero"))
    assert "null byte" in str(refused("a\0b"))


def test_a_toml_file_that_is_too_large_is_refused(write):
    assert "more than 64 KiB" in str(refused(write("#" * (MAX_BYTES + 1), "agent.toml")))
    Settings.load(write("#" * MAX_BYTES, "agent.toml"), environ={})


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "-0x" + "f" * 5000], ids=len)
def test_a_number_without_end_is_refused(write, number):
    assert "agent.toml" in str(refused(write(f"keep.last = {number}\n", "agent.toml")))


def test_the_home_folder_can_be_meant(write, here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    write("session: mine\n")

    assert Settings.load("~/agent.yaml", environ={}).session == "mine"


def test_a_heartbeat_whose_bounds_are_crossed_is_refused():
    error = refused(environ={"HOLDFAST_HEARTBEAT_MIN_INTERVAL": "200.5"})

    assert "heartbeat.min_interval is 200.5 (HOLDFAST_HEARTBEAT_MIN_INTERVAL)" in str(error)
    assert "120 (default)" in str(error)


def test_the_origin_of_an_unknown_key_is_refused_with_the_near_one():
    with pytest.raises(InvalidInputError, match="no setting") as caught:
        Settings.load(environ={}).origin("checkpoint.max_conut")
    assert "did you mean checkpoint.max_count?" in caught.value.hint


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
    assert len({known.argument for known in SETTINGS.values()}) == len(SETTINGS)
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
    with pytest.raises(InvalidInputError, match=re.escape(key)) as caught:
        parse(key, text, "HOLDFAST_X")
    assert caught.value.code is ErrorCode.BAD_CONFIG


def test_it_is_part_of_the_public_api():
    assert holdfast.Settings is Settings


def test_a_variable_a_slip_away_from_one_of_ours_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="HOLDFAST_CHEKPOINT_ENABLED") as caught:
        Settings.load(store=tmp_path / "none.db", environ={"HOLDFAST_CHEKPOINT_ENABLED": "false"})

    assert "did you mean HOLDFAST_CHECKPOINT_ENABLED?" in caught.value.hint
    Settings.load(store=tmp_path / "none.db", environ={"HOLDFAST_IS_OURS_TOO": "x"})


def test_a_key_of_thousands_of_parts_is_refused_before_it_is_read(write):
    assert "line 1 has more than 200 dots" in str(refused(write("a." * 30_000 + "b = 1", "agent.toml")))
