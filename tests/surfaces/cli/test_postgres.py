"""Commands on a store in PostgreSQL: the ways to name it, what goes wrong with servers, and no secret anywhere."""

from __future__ import annotations

import functools
import json
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from tests.services.postgres import SUPERUSER, Role
from tests.surfaces.cli.conftest import PROGRAM

import holdfast

KEPT_IN = ["sqlite"]
"""Every test names its store itself."""

SECRET = "plugh-Ägypten-7/x"
"""Neither it nor the form it has in a URL may be seen."""


@pytest.fixture
def role(postgres):
    """Somebody with a password that occurs nowhere else."""
    return postgres.create_role(password=SECRET)


@pytest.fixture
def url(postgres, role):
    made = postgres.fresh_database(role=role)
    yield made
    postgres.drop_database(made)


@pytest.fixture
def quick(monkeypatch):
    """The same calls with less patience: ten seconds of waiting would show nothing more."""
    monkeypatch.setattr(holdfast, "open", functools.partial(holdfast.open, timeout=0.3))


def hides(*texts):
    """Nobody who reads this learns the password."""
    for text in texts:
        assert "plugh" not in text
        assert "gypten" not in text
        assert SUPERUSER.password not in text
    return True


def refused(run, *words, env=None):
    """The record of a failure: the same in words, in JSON and with a traceback, and never with the secret."""
    plain = run(*words, env=env)
    record = json.loads(run(*words, "--json", env=env).stderr)["error"]
    debug = run(*words, env={**(env or {}), "HOLDFAST_DEBUG": "1"})

    assert plain.exit_code == record["exit"] == debug.exit_code
    assert plain.stdout == ""
    first, *rest = plain.stderr.splitlines()
    assert first == f"error: {record['message']}"
    assert rest == [f"hint: {record['hint']}", f"code: {record['code']}"]
    assert hides(plain.stderr, json.dumps(record, ensure_ascii=False), debug.stderr, debug.stdout)
    return record


def test_the_three_ways_to_name_a_store_lead_to_the_same(run, url):
    assert run("create", "by option", "--store", url).exit_code == 0
    assert run("create", "by variable", env={"HOLDFAST_STORE": url}).exit_code == 0
    with holdfast.open(url) as store:
        store.session().save({"n": 1}, "by hand")
        assert SECRET not in repr(store)

    listed = json.loads(run("list", "--json", "--store", url).stdout)["checkpoints"]
    assert [each["message"] for each in listed] == ["by hand", "by variable", "by option"]
    assert run("list", env={"HOLDFAST_STORE": url}).stdout == run("list", "--store", url).stdout


def test_a_terminal_asks_for_the_name_of_the_store(talk, run, url):
    run("create", "one", env={"HOLDFAST_STORE": url})
    database = url.rpartition("/")[2]
    command = [*PROGRAM, "forget", "--session", "default"]
    no = talk(
        command, (f"the store, {database}, to go on: ", "something\n"), HOLDFAST_STORE=url, NO_COLOR="1"
    )
    yes = talk(
        command, (f"the store, {database}, to go on: ", f"{database}\n"), HOLDFAST_STORE=url, NO_COLOR="1"
    )

    assert (no.exit_code, yes.exit_code) == (20, 0)
    assert hides(no.screen, yes.screen)


COMMANDS = [
    ["init"],
    ["create", "x"],
    ["list"],
    ["show", "--record"],
    ["show", "nope"],
    ["show", "--session", "nope"],
    ["tree"],
    ["timeline"],
    ["stats"],
    ["at", "now"],
    ["tag", "@", "golden"],
    ["undo", "--list"],
    ["undo"],
    ["redo"],
    ["delete", "@"],
    ["restore", "tag:nope"],
    ["switch", "nowhere"],
    ["fork", "@", "main"],
    ["prune", "--only", "--keep-last", "1"],
    ["gc", "--keep-days", "0"],
    ["forget", "--session", "default"],
    ["verify"],
    ["repair"],
    ["backup", "copy.db"],
    ["config"],
    ["config", "--explain"],
    ["watch", "--timeout", "0"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_output_of_any_command_has_the_password(run, url, words):
    run("create", "one", "--store", url)

    for more in ([], ["--json"]):
        for env, where in (({"HOLDFAST_STORE": url}, []), ({}, ["--store", url])):
            result = run(*words, *more, *where, env={**env, "HOLDFAST_DEBUG": "1"})
            assert hides(result.stdout, result.stderr), (words, more, where)
            assert result.exit_code != 70, result.stderr


def test_copying_shows_neither_password(run, url):
    run("create", "one", "--store", url)

    for words in (["copy", url, "copy.db"], ["copy", "copy.db", f"{url}?schema=other"], ["copy", url, url]):
        for more in ([], ["--json"], ["-n"]):
            result = run(*words, *more)
            assert hides(result.stdout, result.stderr), words
    assert json.loads(run("verify", "--json", "--store", f"{url}?schema=other").stdout)["checkpoints"] == 1


def test_a_wrong_password(run, postgres, url, role, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "unused")
    wrong = url.replace(quote(role.password, safe=""), quote("plugh-wrong", safe=""))
    record = refused(run, "list", "--store", wrong)

    assert (record["code"], record["exit"]) == ("login-refused", 8)
    assert "password" in record["hint"]
    assert "pg_hba.conf" in record["hint"]


def test_a_database_that_is_not_there(run, postgres, role):
    record = refused(run, "list", env={"HOLDFAST_STORE": postgres.url("not_there", role)})

    assert (record["code"], record["exit"]) == ("database-missing", 10)
    assert "createdb" in record["hint"]


def test_a_database_without_a_store(run, url):
    for words in (["list"], ["verify"], ["repair"]):
        record = refused(run, *words, "--store", url)
        assert (record["code"], record["exit"]) == ("store-missing", 10), words
        assert "holdfast init" in record["hint"]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'").fetchall() == []


def test_a_role_without_the_right_to_make_a_store(run, postgres, role):
    theirs = postgres.fresh_database()
    url = postgres.url(theirs.rpartition("/")[2], role)
    record = refused(run, "create", "x", "--store", url)

    assert (record["code"], record["exit"]) == ("permission-denied", 8)
    assert "GRANT" in record["hint"]
    postgres.drop_database(theirs)


def test_a_server_that_is_not_there(run, postgres, monkeypatch):
    # Commands that read say themselves how patient they are.
    usual = holdfast.open
    monkeypatch.setattr(holdfast, "open", lambda *at, **how: usual(*at, **(how | {"timeout": 0.3})))
    away = postgres.url("postgres", Role("ada", SECRET)).replace(f":{postgres.port}/", ":1/")
    record = refused(run, "list", "--store", away)

    assert (record["code"], record["exit"]) == ("server-gone", 8)
    assert "host and port" in record["hint"]


@pytest.mark.usefixtures("quick")
def test_a_session_that_somebody_holds(run, url):
    run("create", "x", "--store", url)
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM holdfast.sessions FOR UPDATE")
        record = refused(run, "create", "y", "--store", url)
    assert (record["code"], record["exit"]) == ("store-locked", 11)
    assert run("create", "y", "--store", url).exit_code == 0


BAD = [
    f"postgresql://ada:{SECRET}@db.example/agents",
    f"postgresql://ada:{quote(SECRET, safe='')}@db.example:port/agents",
    f"postgresql://ada:{quote(SECRET, safe='')}@db.example/agents?shcema=x",
    f"postgresql://ada:{quote(SECRET, safe='')}@db.example/agents?schema=Not%20Good",
    f"postgresql://ada:{quote(SECRET, safe='')}@db.example/agents?schema=public",
    f"postgresql://db.example/agents?password={quote(SECRET, safe='')}&nonsense",
]


@pytest.mark.parametrize("address", BAD, ids=range(len(BAD)))
def test_a_url_that_cannot_be_used_is_not_repeated(run, address):
    record = refused(run, "list", "--store", address)

    assert (record["code"], record["exit"]) == ("bad-url", 2)


def test_a_backup_is_refused_with_what_to_do_instead(run, home, url):
    run("create", "x", "--store", url)
    for more in ([], ["--dry-run"]):
        record = refused(run, "backup", "copy.db", *more, "--store", url)
        assert (record["code"], record["exit"]) == ("not-supported", 6)
        assert "holdfast copy" in record["hint"]
    assert list(home.iterdir()) == []


def test_a_repair_says_where_the_tables_are_now(run, url):
    run("create", "whole", "--store", url)
    run("create", "spoiled", "--store", url)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE holdfast.checkpoints SET message = 'x' WHERE message = 'spoiled'")
    assert run("verify", "--store", url).exit_code == 1
    result = run("repair", "--yes", "--store", url)

    assert result.exit_code == 0, result.stderr
    aside = dict(line.split("\t") for line in result.stdout.splitlines())["kept_aside"]
    assert result.stderr == f"the store as it was: {aside}\n"
    with psycopg.connect(url) as connection:
        kept = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(aside, "checkpoints"))
        assert connection.execute(kept).fetchall() == [(2,)]
    assert run("verify", "--store", url).exit_code == 0
    assert [
        each["message"] for each in json.loads(run("list", "--json", "--store", url).stdout)["checkpoints"]
    ] == ["whole"]


def test_a_command_that_is_suggested_takes_the_password_from_the_shell(run, url, role):
    hint = json.loads(run("list", "--store", url, "--json").stderr)["error"]["hint"]
    assert 'PGPASSWORD="$PGPASSWORD" holdfast init --store' in hint
    assert f"//{role.name}@" in hint
    assert SECRET not in hint
