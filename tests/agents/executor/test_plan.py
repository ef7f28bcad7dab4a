"""Plans: built from functions, read from data, and refused before anything runs."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import Executor, Plan, PlanStep, action
from holdfast.agents.executor.step import filled, find_cycle, references


@action(name="tests.add")
def add(a: int, b: int = 0, *, c: int = 0) -> int:
    return a + b + c


def step(name, dependencies=(), action="tests.add", **parameters):
    return {
        "id": name,
        "action": action,
        "parameters": parameters or {"a": 1},
        "dependencies": list(dependencies),
    }


def refused(source) -> holdfast.InvalidInputError:
    with pytest.raises(holdfast.InvalidInputError) as caught:
        Plan.load(source).check()
    assert caught.value.code == "bad-plan"
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("steps", "word"),
    [
        ([step("a"), step("a")], "already"),
        ([step("a", ["b"])], "no such step"),
        ([step("a", ["a"])], "itself"),
        ([step("a", ["b"]), step("b", ["c"]), step("c", ["a"])], "a -> "),
        ([step("a", a=1), step("b", a={"$output": "a"})], "not one of its dependencies"),
        ([step("a", action="tests.ad")], "tests.ad"),
        ([step("a", action="no_such_module:f")], "cannot be imported"),
        ([step("a", nonsense=1)], "do not fit"),
        ([step("a", a=1) | {"retries": -1}], "retries"),
        ([step("a", a=1) | {"timeout": "soon"}], "timeout"),
        ([step("a", a=1) | {"effect": "twice"}], "effect"),
        ([{"action": "x"}], "no id"),
        ([{"id": "a"}], "no action"),
        ([step("a") | {"parametres": {}}], "parametres"),
        ([], "no steps"),
        ("steps", "cannot be read"),
        ([step("a") | {"dependencies": "b"}], "list of ids"),
        ([step("x" * 300)], "id cannot be"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(steps, word) -> None:
    assert word in str(refused(steps))


def test_all_that_is_wrong_is_listed() -> None:
    error = refused([step("a", ["x"]), step("b", action="nope"), step("c", oops=1)])
    assert len(error.details["problems"]) == 3


def test_files_in_yaml_and_json_with_the_documents_names(tmp_path) -> None:
    yaml = tmp_path / "plan.yaml"
    yaml.write_text(
        "name: research\nquery: who?\nsteps:\n"
        "  - id: 1\n    description: one\n    action: tests.add\n    parameters: {a: 2}\n    maxBackoff: 3\n"
        "  - id: two\n    action: tests.add\n    parameters:\n      a: {$output: '1'}\n    dependencies: [1]\n"
    )
    plan = Plan.load(yaml)
    plan.check()
    assert [each.id for each in plan.steps] == ["1", "two"]
    assert [each.line for each in plan.steps] == [4, 9]
    assert plan.steps[0].options == {"max_backoff": 3}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan.to_dict(), indent=1))
    again = Plan.load(str(file))
    assert again.to_dict() == plan.to_dict()
    assert again.steps[1].line is not None
    with holdfast.open("memory:") as store:
        assert Executor(store.session("s")).run(again).state.output("two") == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "steps:\n  - id: a\n    action: tests.add\n    parameters: {a: 1}\n  - id: b\n    action: nope\n",
            5,
        ),
        ("steps:\n  - id: a\n    action: x\n    colour: red\n", 2),
        ("steps: [\n", 2),
        ("steps:\n  - &x {id: a, action: y}\n  - *x\n", 3),
        ("steps:\n  - id: a\n    action: !!python/object:os.system x\n", 3),
        ("steps:\n  - id: a\n    id: b\n", 3),
    ],
)
def test_errors_in_files_have_the_line(tmp_path, text, line) -> None:
    file = tmp_path / "plan.yml"
    file.write_text(text)
    error = refused(file)
    assert f"plan.yml:{line}: " in str(error)
    assert error.details["line"] == line


def test_errors_in_json_have_the_line(tmp_path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(
        '{"plan": [\n{"id": "a", "action": "tests.add", "parameters": {"a": 1}},\n\n{"id": "b", "action": "nope"}]}'
    )
    assert "plan.json:4: " in str(refused(file))
    file.write_text('{"plan": [\n{"id": "a",}]}')
    assert "plan.json:2: " in str(refused(file))
    file.write_text('{"plan": [{"id": "a", "id": "b"}]}')
    assert "twice" in str(refused(file))


def test_hostile_files_end_in_an_error(tmp_path) -> None:
    file = tmp_path / "plan.yaml"
    bomb = "a: &a [x, x]\n" + "".join(
        f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}, *a]\n" for n in range(30)
    )
    for text in (
        bomb,
        "[" * 5000,
        "- " * 3000 + "x",
        "\x00",
        "a: 2001-99-99",
        "!!set {a}",
        "? [a, b]\n: c\n",
    ):
        file.write_text(text)
        refused(file)


def test_building_checks_at_once() -> None:
    plan = Plan("p")
    first = plan.step(add, 1)
    with pytest.raises(holdfast.InvalidInputError):
        plan.step(add, 1, 2, 3, 4)
    with pytest.raises(holdfast.InvalidInputError):
        plan.step(add, 1, id=first.id)
    with pytest.raises(holdfast.InvalidInputError):
        Plan("other").step(add, first)
    assert plan.step(add, first, c=2).id == "tests.add-2" or plan.steps[1].parameters["c"] == 2


def test_arguments_of_every_kind_reach_the_function() -> None:
    @action(name="tests.kinds")
    def kinds(a, /, b, *rest, c=0, **more):
        return [a, b, list(rest), c, more]

    plan = Plan("p")
    plan.step(kinds, 1, 2, 3, 4, c=5, d=6)
    with holdfast.open("memory:") as store:
        assert Executor(store.session("s")).run(plan).state.output(plan.steps[0].id) == [
            1,
            2,
            [3, 4],
            5,
            {"d": 6},
        ]


def test_the_shell_action(tmp_path) -> None:
    with holdfast.open("memory:") as store:
        steps = [
            step(
                "ok",
                action="shell",
                command=["sh", "-c", "pwd; cat; echo $HOLDFAST_STEP_KEY >&2"],
                folder=str(tmp_path),
                stdin="in",
            ),
            step("bad", action="shell", command=["sh", "-c", "echo why >&2; exit 3"]),
            step("slow", action="shell", command=["sleep", "60"], timeout=0.05),
        ]
        result = Executor(store.session("s"), on_failure="skip").run(steps)
        output = result.state.output("ok")
        assert (output["exit_code"], output["stdout"]) == (0, f"{tmp_path}\nin")
        assert len(output["stderr"].strip()) == 32
        assert [each.status for each in result.state.plan] == ["completed", "failed", "failed"]
        assert "ended with 3: why" in str(result.error)
        long = Executor(store.session("t")).run([step("a", action="shell", command=["seq", "100000"])])
        kept = long.state.output("a")["stdout"]
        assert kept.startswith("1\n2\n")
        assert kept.endswith("100000\n")
        assert len(kept) < 11_000


edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40)


@given(edges)
def test_a_cycle_is_found_exactly_where_there_is_one(pairs) -> None:
    steps = [
        PlanStep(str(n), action="x", dependencies=sorted({str(b) for a, b in pairs if a == n and a != b}))
        for n in range(13)
    ]
    cycle = find_cycle(steps)
    after = {each.id: set(each.dependencies) for each in steps}
    if cycle is None:
        done: set = set()
        while len(done) < len(steps):
            ready = {name for name, others in after.items() if name not in done and others <= done}
            assert ready
            done |= ready
    else:
        assert cycle[0] == cycle[-1]
        assert all(b in after[a] for a, b in pairwise(cycle))


values = st.recursive(
    st.none()
    | st.integers()
    | st.text(max_size=3)
    | st.builds(lambda name: {"$output": name}, st.sampled_from("abc")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(values)
def test_references_are_those_that_are_filled_in(value) -> None:
    asked = []

    def output(name):
        asked.append(name)
        return 0

    filled(value, output)
    assert list(dict.fromkeys(asked)) == references(value)
    assert references(filled(value, lambda _name: 0)) == []
