"""Completion by the shell (C24)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete
from tests.surfaces.cli.places import on_sqlite, place

import holdfast
from holdfast.cli import cli


@pytest.fixture
def store(home):
    with holdfast.open(place(home), durability="process") as opened:
        session = opened.session()
        session.save(1, "one\x1b[31m", tags=["golden", "two words", "verified"])
        session.save(2, "two")
        session.save(3, "aside", parent=session.checkpoint("#1"))
        opened.session("scout-1", agent="scout").save(1)
        opened.session("'; rm -rf ~").save(1)
        yield opened


@pytest.fixture
def asked(process):
    def ask(line, **env):
        done = process(
            _HOLDFAST_COMPLETE="bash_complete",
            COMP_LINE=line,
            COMP_POINT=str(len(line)),
            COMP_WORDBREAKS=" \t\n\"'@><=;|&(:",
            **env,
        )
        assert done.stderr == ""
        return [each.removeprefix("plain,") for each in done.stdout.splitlines() if each]

    return ask


def test_commands_and_options_are_completed(asked):
    assert asked("holdfast sho") == ["show"]
    assert asked("holdfast list --al") == ["--all-sessions"]
    assert asked("holdfast list --status f") == ["failed"]
    assert "--session" in asked("holdfast list --")


def test_names_of_the_store_are_completed(asked, store):
    branches = [branch.name for branch in store.session().branches()]
    assert asked("holdfast --session sc") == ["scout-1"]
    assert asked("holdfast --session=sc") == ["scout-1"]
    assert asked("holdfast list --session ") == ["scout-1", "default"]
    assert asked("holdfast list --tag ") == ["golden", "verified"]
    assert asked("holdfast list --tag gold") == ["golden"]
    assert asked("holdfast list --branch ma") == branches
    assert asked("holdfast show ma") == branches
    assert asked("holdfast show @") == [""]


def test_bash_gets_only_what_follows_its_break_characters(asked, store):
    assert asked("holdfast show tag:") == ["golden", "verified"]
    assert asked("holdfast show tag:ver") == ["verified"]
    assert asked("holdfast show ta") == ["tag:golden", "tag:verified"]


def test_ids_are_completed_to_enough_digits(asked, store):
    checkpoint = store.session().checkpoint()

    assert asked(f"holdfast show {checkpoint.id[:3]}")[0] == checkpoint.id[:12]
    assert asked(f"holdfast show {checkpoint.id[:20]}") == [checkpoint.id]
    everything = asked("holdfast show ")
    assert {"@", "main", "tag:golden", checkpoint.id[:12]} <= set(everything)


def test_an_id_of_long_ago_is_found_by_its_digits_and_answers_are_few(asked, home, store):
    first = store.session("long").save(0)
    for n in range(600):
        store.session("long").save(n, tags=[f"t{n}"])

    assert asked(f"holdfast --session long show {first.id[:6]}") == [first.id[:12]]
    assert len(asked("holdfast --session long show ")) == 50
    assert len(asked("holdfast --session long list --tag ")) == 50


@pytest.mark.usefixtures("store")
def test_names_that_a_shell_would_not_take_as_they_are_are_left_out(asked):
    answers = asked("holdfast list --session ") + asked("holdfast list --tag ")

    assert not any(set(answer) & set(" ';*$`\"\\") for answer in answers)


@pytest.mark.parametrize(
    "line",
    [
        "holdfast list --session ",
        "holdfast show ",
        "holdfast --store nowhere show ",
        "holdfast --store broken.db show ",
        "holdfast --store postgresql://x show ",
        "holdfast 'open quote",
        "holdfast show --nonsense x ",
    ],
)
def test_where_nothing_can_be_known_nothing_is_said_or_made(asked, home, line):
    (home / "broken.db").write_bytes(b"this is no database" * 100)

    assert asked(line) == []
    assert [path.name for path in home.iterdir()] == ["broken.db"]


@on_sqlite
@pytest.mark.usefixtures("home")
def test_who_pressed_tab_waits_for_a_server_a_tenth_of_what_a_command_does(monkeypatch, run):
    waits = []
    opened = holdfast.open

    def noting(*args, timeout=10.0, **options):
        waits.append(timeout)
        return opened(*args, timeout=0.01, **options)

    monkeypatch.setattr(holdfast, "open", noting)
    monkeypatch.setenv("HOLDFAST_STORE", "postgresql://127.0.0.1:1/nobody")

    assert BashComplete(cli, {}, "holdfast", "").get_completions(["show"], "") == []
    assert run("show").exit_code != 0
    assert waits == [1.0, 10.0]


def test_zsh_and_fish_are_told_what_a_checkpoint_is(process, store):
    words = {"COMP_WORDS": "holdfast show tag:gol", "COMP_CWORD": "2"}
    zsh = process(_HOLDFAST_COMPLETE="zsh_complete", **words).stdout
    fish = process(
        _HOLDFAST_COMPLETE="fish_complete", COMP_WORDS="holdfast show tag:gol", COMP_CWORD="tag:gol"
    )

    assert "golden" in zsh
    assert r"#1 one\x1b[31m" in zsh
    assert "tag:golden" in fish.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(run, process, shell):
    printed = run("completion", shell)

    assert printed.exit_code == 0
    assert printed.stderr == ""
    assert f"{shell}_complete" in printed.stdout
    assert run("completion", "tcsh").exit_code == 2
    if shutil.which(shell):
        # Not by `require`: nobody needs three shells to work on this, and the structure is checked below.
        checked = subprocess.run(
            [shell, "-n"], input=printed.stdout, text=True, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")


CALLS = {
    # How each script asks, with what the shell itself would put in its place.
    "zsh": (
        r"\$\((env COMP_WORDS=.*?zsh_complete holdfast)\)",
        {'"${words[*]}"': "'holdfast {}'", "$((CURRENT-1))": "{count}"},
    ),
    "fish": (
        r"\((env _HOLDFAST_COMPLETE=fish_complete .* holdfast)\);",
        {"(commandline -cp)": "'holdfast {}'", "(commandline -t)": "'{last}'"},
    ),
}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("shell", CALLS)
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("lis", "list"),
        ("show tag:gol", "tag:golden"),
        ("list --session sc", "scout-1"),
        ("list --session=sc", "--session=scout-1"),
        ("list --session a", "a,b"),
    ],
)
def test_the_scripts_of_zsh_and_fish_call_the_program_rightly(run, home, store, shell, typed, wanted):
    store.session("a,b").save(1)
    program = home / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    pattern, values = CALLS[shell]
    found = re.search(pattern, run("completion", shell).stdout)
    assert found is not None
    call = found[1]
    for each, value in values.items():
        assert each in call
        call = call.replace(each, value.format(typed, count=len(typed.split()), last=typed.split()[-1]))
    done = subprocess.run(
        ["/bin/sh", "-c", call],
        cwd=home,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    if shell == "zsh":
        kinds, keys = done.stdout.splitlines()[::3], done.stdout.splitlines()[1::3]
        assert set(kinds) == {"plain"}
        # _describe takes what follows a colon for the description.
        assert [key.replace("\\:", ":") for key in keys] == [wanted]
    else:
        lines = [line.split(",", 1) for line in done.stdout.splitlines()]
        assert [(kind, rest.split("\t")[0]) for kind, rest in lines] == [("plain", wanted)]
    assert done.stderr == ""


def test_the_scripts_are_registered_for_the_program(run):
    zsh, fish = run("completion", "zsh").stdout, run("completion", "fish").stdout

    assert zsh.startswith("#compdef holdfast\n")
    assert "compdef _holdfast_completion holdfast\n" in zsh
    assert 'complete --no-files --command holdfast --arguments "(_holdfast_completion)"' in fish
    # Answers may have commas in them, and may begin with a dash.
    assert 'string split -m1 "," $completion' in fish
    assert r'printf "%s\n" $metadata[2]' in fish
    assert "echo" not in fish
    for text, pairs in ((zsh, ("{}", "()")), (fish, ("()",))):
        assert all(text.count(pair[0]) == text.count(pair[1]) for pair in pairs)
    words = re.findall(r"^\s*(function|for|if|end)\b", fish, re.MULTILINE)
    assert words.count("end") == len(words) - words.count("end")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("line", "words", "wanted"),
    [
        ("holdfast show tag:ver", "holdfast show tag : ver", "verified"),
        ("holdfast list --session=sc", "holdfast list --session = sc", "scout-1"),
        ("holdfast lis", "holdfast lis", "list"),
    ],
)
def test_bash_itself_takes_the_answers(home, line, words, wanted):
    program = home / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = f"""
        eval "$(holdfast completion bash)"
        COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}
        _holdfast_completion holdfast
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=home,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [wanted]
