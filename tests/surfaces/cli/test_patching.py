"""`create --patch`: RFC 6902 on states that are more than JSON."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli.patch import apply_patch, parse_patch
from holdfast.errors import ConflictError, ErrorCode, InvalidInputError


def patched(state, *operations):
    return apply_patch(state, parse_patch(list(operations), "patch.json"))


def op(name, path, **members):
    return {"op": name, "path": path, **members}


RFC = [
    ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"baz": "qux", "foo": "bar"}),
    ({"foo": ["bar", "baz"]}, [op("add", "/foo/1", value="qux")], {"foo": ["bar", "qux", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
    ({"foo": ["bar", "qux", "baz"]}, [op("remove", "/foo/1")], {"foo": ["bar", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [op("replace", "/baz", value="boo")], {"baz": "boo", "foo": "bar"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [op("move", "/qux/thud", **{"from": "/foo/waldo"})],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        {"foo": ["all", "grass", "cows", "eat"]},
        [op("move", "/foo/3", **{"from": "/foo/1"})],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [op("test", "/baz", value="qux"), op("test", "/foo/1", value=2)],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    (
        {"foo": "bar"},
        [op("add", "/child", value={"grandchild": {}})],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    ({"foo": "bar"}, [op("add", "/baz", value="qux", xyz=123)], {"foo": "bar", "baz": "qux"}),
    ({"/": 9, "~1": 10}, [op("test", "/~01", value=10), op("test", "/~1", value=9)], {"/": 9, "~1": 10}),
    ({"foo": ["bar"]}, [op("add", "/foo/-", value=["abc", "def"])], {"foo": ["bar", ["abc", "def"]]}),
    ({"foo": 1}, [op("replace", "", value=[1]), op("add", "/0", value=0)], [0, 1]),
    ({"a": [1]}, [op("copy", "/b", **{"from": "/a"}), op("add", "/b/-", value=2)], {"a": [1], "b": [1, 2]}),
    ({"": {"": 1}}, [op("replace", "//", value=2)], {"": {"": 2}}),
    ({"a": None}, [op("test", "/a", value=None), op("replace", "/a", value=None)], {"a": None}),
    ({"a": 1}, [op("move", "/a", **{"from": "/a"})], {"a": 1}),
    ({"a": 1}, [op("copy", "/b", **{"from": ""})], {"a": 1, "b": {"a": 1}}),
    ({"a": {"b": 1}}, [op("move", "", **{"from": "/a"})], {"b": 1}),
    ({"a": 1}, [op("add", "/a", value=2)], {"a": 2}),
    ({"a": 1}, [], {"a": 1}),
]


@pytest.mark.parametrize(("state", "operations", "wanted"), RFC)
def test_the_six_operations_do_what_the_rfc_says(state, operations, wanted):
    assert patched(deepcopy(state), *operations) == wanted


FAILING = [
    ({"a": 1}, op("test", "/a", value=2), "the value there is 1, not 2"),
    ({"a": 1}, op("test", "/a", value="1"), "the value there is 1, not '1'"),
    ({"a": 1}, op("test", "/a", value=True), "the value there is 1, not true"),
    ({"a": True}, op("test", "/a", value=1), "the value there is true, not 1"),
    ({"a": None}, op("test", "/a", value=False), "the value there is null, not false"),
    ({"a": [1, 2]}, op("test", "/a", value=[1]), "a list, not a list"),
    ({"a": 10**9000}, op("test", "/a", value=1), "a number, not 1"),
    ({"goal": 1}, op("remove", "/gaol"), "has no key 'gaol'"),
    ({"goal": 1}, op("replace", "/x", value=1), "has no key 'x'"),
    ({"a": [1]}, op("add", "/a/2", value=1), "no position 2 in a list of 1"),
    ({"a": [1]}, op("replace", "/a/1", value=1), "no position 1 in a list of 1"),
    ({"a": [1]}, op("replace", "/a/-", value=1), "after the last item"),
    ({"a": [1]}, op("remove", "/a/-"), "after the last item"),
    ({"a": [1]}, op("add", "/a/01", value=1), "'01' is no position"),
    ({"a": [1]}, op("add", "/a/-1", value=1), "'-1' is no position"),
    ({"a": [1]}, op("add", "/a/1e0", value=1), "'1e0' is no position"),
    ({"a": [1]}, op("test", "/a/\u0661", value=1), "is no position"),
    ({"a": 1}, op("add", "/a/b", value=1), "/a is a number, and a patch cannot go into that"),
    ({"a": {1}}, op("add", "/a/0", value=1), "/a is of type set"),
    ({"a": "text"}, op("test", "/a/0", value="t"), "/a is text"),
    ({"a": {}}, op("add", "/a/b/c", value=1), "/a has no key 'b'"),
    ({1: "a"}, op("replace", "/1", value="b"), "the state has no key '1'"),
    ({"a": 1}, op("remove", ""), "the whole state cannot be taken away"),
    ({"a": 1}, op("copy", "/b", **{"from": "/c"}), "has no key 'c'"),
    ({"a": deque([1], maxlen=1)}, op("add", "/a/-", value=2), "the deque there is full"),
]


@pytest.mark.parametrize(("state", "operation", "why"), FAILING)
def test_an_operation_that_does_not_fit_is_named_with_what_is_there(state, operation, why):
    with pytest.raises(ConflictError) as caught:
        patched(None, op("add", "", value=state), operation)

    assert caught.value.code is ErrorCode.PATCH_FAILED
    assert why in str(caught.value)
    assert str(caught.value).startswith(f"operation 2 ({operation['op']} ")
    assert caught.value.details["operation"] == 2


MALFORMED = [
    ({"op": "add"}, "holds an object, not a list"),
    ("text", "holds text"),
    ([1], "operation 1: a number is not an operation"),
    ([{}], "operation 1: it has no op"),
    ([op("ad", "/a", value=1)], "there is no operation 'ad'"),
    ([op(["add"], "/a", value=1)], "there is no operation ['add']"),
    ([{"op": "remove"}], "remove needs 'path'"),
    ([op("add", "/a")], "add needs 'value'"),
    ([op("test", "/a")], "test needs 'value'"),
    ([op("move", "/a")], "move needs 'from'"),
    ([op("remove", "a")], "does not begin with /"),
    ([op("remove", 1)], "is a number, not a JSON pointer"),
    ([op("remove", "/a~2")], "a ~ that stands for nothing"),
    ([op("remove", "/a~")], "a ~ that stands for nothing"),
    ([op("copy", "/a", **{"from": "b"})], "from 'b' does not begin with /"),
    ([op("move", "/a/b", **{"from": "/a"})], "cannot be moved into itself"),
    ([op("move", "/a", **{"from": ""})], "cannot be moved into itself"),
]


@pytest.mark.parametrize(("document", "why"), MALFORMED)
def test_what_is_not_a_patch_is_refused_with_the_operation(document, why):
    with pytest.raises(InvalidInputError) as caught:
        parse_patch(document, "patch.json")

    assert why in str(caught.value)
    assert str(caught.value).startswith("patch.json")
    assert caught.value.hint


def test_what_a_patch_goes_through_keeps_its_type():
    state = {"t": (1, (2, [3])), "d": deque([1, 2], maxlen=5), "o": OrderedDict(a=1)}

    after = patched(
        state,
        op("replace", "/t/1/0", value=9),
        op("add", "/t/1/1/-", value=4),
        op("add", "/t/-", value=5),
        op("remove", "/t/0"),
        op("add", "/d/0", value=0),
        op("add", "/o/b", value=2),
    )

    assert after == {"t": ((9, [3, 4]), 5), "d": deque([0, 1, 2]), "o": OrderedDict(a=1, b=2)}
    assert [type(after["t"]), type(after["t"][0]), type(after["d"]), type(after["o"])] == [
        tuple,
        tuple,
        deque,
        OrderedDict,
    ]
    assert patched((1, 2), op("replace", "/1", value=3)) == (1, 3)
    assert patched({"t": (1, 2)}, op("test", "/t", value=[1, 2.0])) == {"t": (1, 2)}


KEYS = st.sampled_from(["a", "b", "a/b", "m~n", "", "0"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
POINTERS = st.lists(KEYS | st.sampled_from(["1", "2", "-", "01"]), max_size=3).map(
    lambda parts: "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
)
OPERATIONS = st.builds(
    lambda name, path, source, value: {"op": name, "path": path, "from": source, "value": value},
    st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
    POINTERS,
    POINTERS,
    JSON,
)


class Unfit(Exception):
    pass


def model_key(parent, token, *, room=0):
    if isinstance(parent, dict):
        return token
    if not isinstance(parent, list):
        raise Unfit
    if token == "-" and room:
        return len(parent)
    if token not in [str(n) for n in range(len(parent) + room)]:
        raise Unfit
    return int(token)


def model_get(value, tokens):
    for token in tokens:
        key = model_key(value, token)
        if isinstance(value, dict) and key not in value:
            raise Unfit
        value = value[key]
    return value


def model_remove(doc, tokens):
    if not tokens:
        raise Unfit
    model_get(doc, tokens)
    parent = model_get(doc, tokens[:-1])
    return parent.pop(model_key(parent, tokens[-1]))


def model_add(doc, tokens, value):
    if not tokens:
        return value
    parent = model_get(doc, tokens[:-1])
    key = model_key(parent, tokens[-1], room=1)
    if isinstance(parent, dict):
        parent[key] = value
    else:
        parent.insert(key, value)
    return doc


def model(doc, operation):
    """One operation on a copy of plain JSON, each built from get, add and remove as the RFC words it."""
    doc, operation = deepcopy(doc), deepcopy(operation)
    path, source = (
        [part.replace("~1", "/").replace("~0", "~") for part in operation[member].split("/")[1:]]
        for member in ("path", "from")
    )
    name, value = operation["op"], operation["value"]
    if name == "test":
        if json.dumps(model_get(doc, path), sort_keys=True) != json.dumps(value, sort_keys=True):
            raise Unfit
    elif name == "add":
        doc = model_add(doc, path, value)
    elif name == "remove":
        model_remove(doc, path)
    elif name == "replace":
        model_get(doc, path)
        if path:
            model_remove(doc, path)
        doc = model_add(doc, path, value)
    elif name == "copy":
        doc = model_add(doc, path, deepcopy(model_get(doc, source)))
    elif path == source:
        model_get(doc, path)
    else:
        doc = model_add(doc, path, model_remove(doc, source))
    return doc


@given(JSON, st.lists(OPERATIONS, min_size=1, max_size=5))
def test_any_patch_does_what_the_model_does(state, operations):
    def moves_into_itself(each):
        return each["op"] == "move" and (each["path"] + "/").startswith(each["from"] + "/")

    operations = [each for each in operations if each["path"] == each["from"] or not moves_into_itself(each)]
    wanted, failed = state, False
    for operation in operations:
        try:
            wanted = model(wanted, operation)
        except Unfit:
            failed = True
            break

    if failed:
        with pytest.raises(ConflictError):
            patched(deepcopy(state), *deepcopy(operations))
    else:
        got = patched(deepcopy(state), *deepcopy(operations))
        assert json.dumps(got, sort_keys=True) == json.dumps(wanted, sort_keys=True)


@given(JSON)
def test_no_document_does_anything_but_parse_or_be_refused(document):
    with pytest.raises(InvalidInputError) if document != [] else pytest.MonkeyPatch().context():
        parse_patch(document, "x")


@pytest.fixture
def session(home):
    with holdfast.open(place(home)) as store:
        session = store.session()
        session.save({"goal": "x", "pair": (1, 2), "seen": {3}, "tried": [1]}, "by the agent")
        yield session


def write(home, *operations):
    (home / "patch.json").write_text(json.dumps(operations), encoding="utf-8")


def test_a_patch_can_come_from_stdin_and_the_plan_of_a_dry_run_is_the_same(run, session):
    text = json.dumps([op("replace", "/goal", value="y")])

    dry = json.loads(run("create", "x", "--patch", "-", "--dry-run", "--json", input=text).stdout)
    assert session.load()["goal"] == "x"
    real = json.loads(run("create", "x", "--patch", "-", "--json", input=text).stdout)

    assert dry["plan"] == real["plan"]
    assert real["plan"]["state"]["source"] == "patch"
    assert session.load()["goal"] == "y"


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_patch_that_fails_half_way_saves_nothing(run, home, session, dry):
    write(home, op("replace", "/goal", value="changed"), op("test", "/tried/0", value=7))

    result = run("create", "x", "--patch", "patch.json", *dry)

    assert result.exit_code == 5
    assert "operation 2 (test /tried/0) does not fit the state: the value there is 1, not 7" in result.stderr
    assert "code: patch-failed" in result.stderr
    assert len(session.log()) == 1
    assert session.load()["goal"] == "x"


@pytest.mark.parametrize(
    ("text", "code"),
    [("{}", 2), ("[{]", 2), ('[{"op": "add"}]', 2), ('[{"op": "remove", "path": "/no"}]', 5)],
)
def test_a_bad_patch_leaves_no_store_behind(run, home, text, code):
    (home / "patch.json").write_text(text, encoding="utf-8")

    assert run("create", "x", "--patch", "patch.json").exit_code == code
    assert run("create", "x", "--patch", "missing.json").exit_code == 2
    assert not (home / ".holdfast").exists()


def test_in_a_new_session_the_patch_starts_from_nothing(run, home):
    write(home, op("add", "/n", value=1))

    result = run("create", "x", "--patch", "patch.json")

    assert result.exit_code == 0, result.stderr
    assert json.loads(run("show", "--state", "--json").stdout) == {"n": 1}


def test_a_state_and_a_patch_exclude_each_other(run, home):
    write(home)

    assert run("create", "x", "--patch", "patch.json", "--state", "patch.json").exit_code == 2


def test_patches_beside_each_other_all_arrive(process, home):
    from concurrent.futures import ThreadPoolExecutor

    process("create", "start", "--state", "-", stdin='{"items": []}')
    write(home, op("add", "/items/-", value="x"))
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: process("create", f"{n}", "--patch", "patch.json"), range(8)))

    assert [each.stderr for each in done if each.returncode] == []
    with holdfast.open(place(home)) as store:
        assert store.session().load() == {"items": ["x"] * 8}
