"""Which setting wins, what is refused, and how a settings file is changed (C20)."""

from __future__ import annotations

import json
import tomllib

import pytest
from tests.surfaces.cli.json_schema import load, problems

import holdfast
from holdfast.settings.files import edited, value_at

KEPT_IN = ["sqlite"]


@pytest.fixture
def places(run, home, monkeypatch):
    """A folder with a store in it, and a writer for each settings file."""
    user = home / "user"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user))
    run("init")
    paths = {
        "store": home / ".holdfast" / "config.toml",
        "project": home / "pyproject.toml",
        "user": user / "holdfast" / "config.toml",
    }
    paths["user"].parent.mkdir(parents=True)

    def write(kind, text):
        paths[kind].write_text(text, encoding="utf-8")
        return paths[kind]

    return write


def explained(run, key, *args, **options):
    result = run("config", "--explain", key, *args, **options)
    assert result.exit_code == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.startswith(f"{key}\t"))
    return row.split("\t")[1:]


def test_the_nearest_setting_wins_and_its_origin_is_shown(run, places):
    assert explained(run, "time") == ["relative", "default"]
    user = places("user", '# mine\n\ntime = "local"\n')
    assert explained(run, "time") == ["local", f"{user.relative_to(user.parents[2])}"]
    places("project", '[project]\nname = "x"\n[tool.holdfast]\ntime = "iso"\n')
    assert explained(run, "time") == ["iso", "pyproject.toml"]
    places("store", 'time = "relative"\n')
    assert explained(run, "time") == ["relative", ".holdfast/config.toml"]
    env = {"HOLDFAST_TIME": "local"}
    assert explained(run, "time", env=env) == ["local", "HOLDFAST_TIME"]
    assert explained(run, "time", "--time", "iso", env=env) == ["iso", "--time"]


def test_settings_do_what_they_say(run, places, terminal):
    run("create", "in default")
    run("create", "in other", "--session", "other")
    places("store", 'session = "other"\ncolor = "never"\ntime = "iso"\n')

    assert "in other" in run("list").stdout
    assert "in default" in run("list", "--session", "default").stdout
    assert "in default" in run("list", env={"HOLDFAST_SESSION": "default"}).stdout
    seen = terminal("list").screen
    assert "\x1b" not in seen
    assert seen.splitlines()[0].split()[2] == "TIME"
    assert "Z  " in seen
    assert "\x1b" in terminal("list", "--color", "always").screen
    assert "AGE" in terminal("list", "--time", "relative").screen


def test_durability_reaches_the_store(run, places, monkeypatch):
    seen = []
    real = holdfast.open

    def watched(*args, **options):
        seen.append(options.get("durability"))
        return real(*args, **options)

    monkeypatch.setattr(holdfast, "open", watched)
    places("store", 'durability = "process"\n')
    run("create", "x")
    run("list")
    run("create", "x", env={"HOLDFAST_DURABILITY": "power"})

    assert seen == ["process", "process", "power"]


def test_create_keeps_what_the_settings_say_and_tells_so(run, places):
    places("store", "[keep]\nlast = 3\n")

    said = [run("create", f"message {n}").stderr for n in range(8)]

    assert len(run("list").stdout.splitlines()) == 3
    assert all("keeps: last=3 per=session; the rest is pruned\n" in each for each in said)
    assert ["pruned: " in each for each in said] == [False] * 3 + [True] * 5
    # Others may have saved them: nothing goes that cannot be brought back.
    run("undo")
    assert len(run("list").stdout.splitlines()) == 4
    run("redo")
    places("store", "")
    assert len([run("create", "more") for _ in range(3)]) + 3 == len(run("list").stdout.splitlines())


@pytest.mark.parametrize(
    ("text", "code"), [("within = 'soon'", "bad-argument"), ("per = 'agent'", "empty-policy")]
)
def test_a_retention_that_cannot_be_carried_out_is_refused_before_anything_is_saved(run, places, text, code):
    places("store", f"[keep]\n{text}\n")

    result = run("create", "x")

    assert result.exit_code == 2
    assert f"code: {code}" in result.stderr
    places("store", "")
    assert run("list").stdout == ""


@pytest.mark.parametrize("kind", ["store", "project", "user"])
def test_an_unknown_key_names_the_file_the_line_and_the_near_miss(run, places, kind):
    header = "[tool.holdfast]\n" if kind == "project" else "\n"
    path = places(kind, f'# settings\n{header}colour = "never"\n')

    result = run("list")

    assert result.exit_code == 2
    assert result.stdout == ""
    near = path.name if kind == "project" else "config.toml"
    assert "unknown key 'colour' in " in result.stderr
    fix = {
        "store": " or: holdfast config colour --unset",
        "project": f" or take it out of {path.name}",
        "user": " or: holdfast config colour --unset --user",
    }[kind]
    assert f"{near}\nhint: did you mean color?{fix}\ncode: bad-config\n" in result.stderr


# Which values do not fit is in tests/unit/settings.
BAD = [
    ('color = "sometimes"', "color in .holdfast/config.toml has to be one of auto, always, never"),
    ("[keep]\nlast = 0", "keep.last in .holdfast/config.toml has to be a whole number from 1, not 0"),
    ("[keep]\nlats = 3", "unknown key 'keep.lats' in .holdfast/config.toml"),
    ("color = ", "is not TOML"),
]


@pytest.mark.parametrize(("text", "why"), BAD)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(run, places, text, why):
    places("store", text + "\n")

    result = run("list")

    assert result.exit_code == 2
    assert why in result.stderr
    assert "code: bad-config" in result.stderr


def test_a_project_that_does_not_mention_holdfast_is_left_alone(run, places):
    places("project", "this is not TOML")
    assert run("list").exit_code == 0
    places("project", "[tool.other]\ncolour = 1\n# holdfast\n")
    assert run("list").exit_code == 0


def test_help_and_version_work_although_a_file_is_wrong(run, places):
    places("store", "colour = 1\n")

    assert run("--help").exit_code == run("list", "--help").exit_code == run("--version").exit_code == 0
    assert run("list").exit_code == run("config", "color").exit_code == 2


@pytest.mark.parametrize("args", [["config"], ["config", "--explain"], ["config", "--explain", "color"]])
def test_config_shows_the_rest_of_a_wrong_file_and_what_is_wrong_with_it(run, places, args):
    places("store", 'colour = 1\ncolor = "never"\n[keep]\nlast = "many"\ndays = 3\n')
    places("user", "time = \n")

    result = run(*args)
    record = json.loads(run(*args, "--json").stdout)

    assert result.exit_code == 0
    assert "color\tnever" in result.stdout
    assert "wrong: unknown key 'colour' in .holdfast/config.toml\n" in result.stderr
    assert "wrong: keep.last in .holdfast/config.toml has to be" in result.stderr
    assert "holdfast config keep.last --unset" in result.stderr
    assert "config.toml is not TOML" in result.stderr
    assert [each["path"] for each in record["problems"]][1:] == [".holdfast/config.toml"] * 2
    assert problems(record, load("config.schema.json")) == []


def test_one_value_is_printed_alone(run, places):
    places("store", 'keep.tags = ["a", "b"]\n')

    assert run("config", "color").stdout == "auto\n"
    assert run("config", "keep.tags").stdout == "a,b\n"
    missing = run("config", "colour")
    assert missing.exit_code == 2
    assert "did you mean color?" in missing.stderr


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("color", "never", "never"),
        ("pager", "", ""),
        ("session", 'a "b" \\ ü', 'a "b" \\ ü'),
        ("keep.last", "10", 10),
        ("keep.hourly", "all", "all"),
        ("keep.manual", "true", True),
        ("keep.tags", "a, b", ["a", "b"]),
    ],
)
def test_a_value_that_is_set_is_read_back_and_can_be_unset(run, home, places, key, text, value):
    file = places("store", '# mine\n\nsession = "x" # here\n')

    result = run("config", key, text)

    assert result.exit_code == 0, result.stderr
    assert value_at(file.read_text(encoding="utf-8"), key, "here") == value
    assert "# mine" in file.read_text(encoding="utf-8")
    assert "# here" in file.read_text(encoding="utf-8")
    assert run("config", key, "--unset").exit_code == 0
    assert value_at(file.read_text(encoding="utf-8"), key, "here") is None
    assert run("config", key, "--unset").exit_code == 4


def test_the_file_is_made_where_there_was_none(run, home, places):
    assert run("config", "color", "never").exit_code == 0
    assert (home / ".holdfast" / "config.toml").read_text(encoding="utf-8") == 'color = "never"\n'
    assert run("config", "color", "always", "--user").exit_code == 0
    assert (home / "user" / "holdfast" / "config.toml").read_text(encoding="utf-8") == 'color = "always"\n'
    assert run("config", "color").stdout == "never\n"
    assert sorted(path.name for path in (home / ".holdfast").iterdir() if "config" in path.name) == [
        "config.toml"
    ]


def test_a_dry_run_changes_nothing(run, home, places):
    result = run("config", "color", "never", "--dry-run")

    assert result.exit_code == 0
    assert "color: not set -> never" in result.stderr
    assert not (home / ".holdfast" / "config.toml").exists()


def test_a_wrong_file_can_be_mended_with_the_command(run, places):
    file = places("store", 'colour = "never"\nsession = 5\n')

    assert run("config", "colour", "--unset").exit_code == 0
    assert run("config", "session", "mine").exit_code == 0
    assert file.read_text(encoding="utf-8") == 'session = "mine"\n'


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["colour", "x"], 2),
        (["color", "pink"], 2),
        (["keep.last", "many"], 2),
        (["--unset"], 2),
        (["color", "never", "--unset"], 2),
        (["color", "never", "--explain"], 2),
        (["color", "--user"], 2),
        (["color", "--dry-run"], 2),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_is_written(run, home, places, args, code):
    assert run("config", *args).exit_code == code
    assert not (home / ".holdfast" / "config.toml").exists()


def test_without_a_store_only_ones_own_settings_can_be_changed(run, home):
    result = run("config", "color", "never")

    assert result.exit_code == 10
    assert "--user" in result.stderr
    assert list(home.iterdir()) == []


FILES = [
    "",
    "\n",
    'color = "auto"',
    "color='auto'#c\r\nsession = 'a'\r\n",
    '# top\n\ncolor = "a # b" # why\n\n# about keep\n[keep]\nlast = 3 # three\ntags = [\n  "a", # one\n  "b",\n]\n',
    'session = """\ncolor = "no"\n"""\n',
    "keep.last = 3\nkeep.days = 7\n",
    "[other]\nx = 1\n",
    '"color" = "auto"\n[ keep ]\n"last" = 1\n',
    "[[list]]\na = 1\n[[list]]\na = 2\n",
]
KEYS = ("color", "session", "keep.last", "keep.tags")


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["a # b \x7f", 7, ["a", "b"]], ids=str)
def test_setting_changes_one_value_and_unsetting_takes_only_that(text, key, value):
    after = edited(text, key, value)

    assert value_at(after, key, "here") == value
    for each in KEYS:
        if each != key:
            assert value_at(after, each, "here") == value_at(text, each, "here")
    for kept in ("# top", "# about keep", "# three"):
        if kept in text and key not in ("keep.last", "keep.tags"):
            assert kept in after
    without = edited(after, key, None)
    assert value_at(without, key, "here") is None
    assert tomllib.loads(without).get("other") == tomllib.loads(text).get("other")


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("postgresql://ada:plugh@db.example/agents", "a store on a server has no settings file"),
        ("notes.db", "only a store in a folder has a settings file"),
    ],
)
@pytest.mark.parametrize("words", [["color", "never"], ["color", "--unset"]])
def test_a_store_without_a_folder_has_no_settings_of_its_own(run, home, store, said, words):
    for where, env in ((["--store", store], {}), ([], {"HOLDFAST_STORE": store})):
        result = run("config", *words, *where, env=env)

        assert result.exit_code == 6
        assert f"error: {said}" in result.stderr
        assert "--user" in result.stderr
        assert "plugh" not in result.stderr
    assert list(home.iterdir()) == []
