"""Completion by the shell (C24)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from tests.surfaces.cli.places import place

import holdfast


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
    assert asked("holdfast list --all-") == ["--all-sessions"]
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


def test_ids_are_completed_to_enough_digits(asked, store):
    checkpoint = store.session().checkpoint()

    assert asked(f"holdfast show {checkpoint.id[:3]}")[0] == checkpoint.id[:12]
    assert asked(f"holdfast show {checkpoint.id[:20]}") == [checkpoint.id]
    everything = asked("holdfast show ")
    assert {"@", "main", "tag:golden", checkpoint.id[:12]} <= set(everything)


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
