"""Plan: what is to be done, as data; steps that name each other, never by position.

A plan is built from ordinary functions, where a handle is a dependency and its output is passed, or read from a file
(`loader`). Either way its steps are `PlanStep`s: plain data, and the function itself where it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.agents.executor.action import Action, as_action, parameters_of
from holdfast.agents.executor.loader import read_plan, step_from
from holdfast.agents.executor.step import MAX_ID, OUTPUT, PlanStep, find_cycle, references, step_missing
from holdfast.errors import ErrorCode, InvalidInputError, shown

_MAX_DEPTH: Final = 200
_MOST_TOLD: Final = 5
"""Problems that an error message has."""


class Handle:
    """A step of a plan that is being built: pass it to another step, which is then given its output."""

    __slots__ = ("_plan", "id")

    def __init__(self, plan: Plan, step: str) -> None:
        self._plan = plan
        self.id = step

    @property
    def step(self) -> PlanStep:
        """The step itself."""
        return self._plan[self.id]

    def belongs_to(self, plan: Plan) -> bool:
        """Whether it is a step of this plan."""
        return self._plan is plan

    def __repr__(self) -> str:
        return f"<step {self.id!r}>"


class Plan:
    """Steps to be done, in an order that their dependencies give.

        plan = Plan("weekly report", query="what happened this week?")
        hits = [plan.step(search, topic, id=f"search-{topic}") for topic in ("a", "b")]
        plan.step(write, hits)

    Args:
        name: What it is called.
        query: What was asked for.
        steps: Steps that are there from the beginning, as `PlanStep` or as dicts of their fields.
        context: Working memory that the steps begin with.
    """

    def __init__(
        self,
        name: str = "plan",
        *,
        query: str = "",
        steps: Iterable[PlanStep | Mapping[str, Any]] = (),
        context: Mapping[str, Any] | None = None,
    ) -> None:
        if type(name) is not str or not name:
            raise _bad(f"a plan cannot be called {shown(name)}", "pass its name as a text")
        self.name = name
        self.query = query
        self.context = dict(context or {})
        self.source: str | None = None
        """The file that it was read from."""
        self.steps: list[PlanStep] = []
        for each in steps:
            self.steps.append(each if isinstance(each, PlanStep) else step_from(each))

    def step(
        self,
        function: Callable[..., Any] | str,
        /,
        *args: Any,
        id: str | None = None,  # noqa: A002 - the field of a step
        description: str | None = None,
        after: Sequence[Handle | str] = (),
        **kwargs: Any,
    ) -> Handle:
        """Add a step, and return a handle that stands for its output.

        Args:
            function: What does it, or the name of an action, which takes its parameters by name.
            args: Its arguments, as in a call; a handle in them, however deep, makes that step a dependency.
            id: What the step is called; the name of the function otherwise, with a number where it is taken.
            description: What it does, for people; the first line of the docstring otherwise.
            after: Steps that have to be done before, whose output is not needed.
            kwargs: Its arguments by name.

        Raises:
            InvalidInputError: The arguments do not fit the function, or there is such a step already.
        """
        if isinstance(function, str):
            if args:
                raise _bad(f"the action {function!r} takes its parameters by name", "pass name=value")
            name, callable_, text = function, None, function
            named = dict(kwargs)
        else:
            found = as_action(function)
            name, callable_ = found.name, found.function
            text = (getattr(callable_, "__doc__", None) or "").strip().partition("\n")[0] or name
            try:
                named = parameters_of(callable_).named(args, kwargs)
            except TypeError as error:
                raise _bad(f"{name}: {error}", "pass what the function takes") from error
        short = name.rpartition(":")[2].rpartition(".")[2]
        taken = {each.id for each in self.steps}
        if id is None:
            id = next(each for each in _names(short) if each not in taken)  # noqa: A001 - the field of a step
        elif id in taken:
            raise _bad(f"there is a step {id!r:.80} already", "give each step an id of its own")
        parameters = self._as_data(named, 0)
        dependencies = list(dict.fromkeys([*references(parameters), *(self._id(each) for each in after)]))
        made = PlanStep(
            id=id,
            description=text if description is None else description,
            action=name,
            parameters=parameters,
            dependencies=dependencies,
            function=callable_,
        )
        self.steps.append(made)
        return Handle(self, id)

    @classmethod
    def load(cls, source: Any) -> Plan:
        """Read a plan from a YAML or JSON file, a dict, or a list of steps.

        Raises:
            InvalidInputError: It is no plan (`bad-plan`); the message has the file and the line.
        """
        if isinstance(source, Plan):
            return source
        found = read_plan(source)
        plan = cls(found.name, query=found.query, steps=found.steps, context=found.context)
        plan.source = found.file
        return plan

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, which `load` takes."""
        return {
            "name": self.name,
            "query": self.query,
            "context": self.context,
            "steps": [each.to_dict() for each in self.steps],
        }

    def check(self, actions: Mapping[str, Callable[..., Any]] | None = None) -> dict[str, Action]:
        """Check everything that can be known before anything runs; return the action of each step.

        Args:
            actions: Functions by name, beside those that are decorated.

        Raises:
            InvalidInputError: Something is wrong (`bad-plan`): `details["problems"]` has all of it.
        """
        problems = list(self._problems())
        found: dict[str, Action] = {}
        for each in self.steps:
            try:
                done_by = found[each.id] = each.resolved(actions or {})
            except InvalidInputError as error:
                problems.append((each, str(error), error.hint))
                continue
            problems += [
                (each, why, "help(holdfast.action) says what it can be") for why in done_by.options.problems()
            ]
            if why := parameters_of(done_by.function).problem(each.parameters):
                problems.append(
                    (each, f"the parameters do not fit {done_by.name}: {why}", "name what it takes")
                )
        if problems:
            raise self._refused(problems)
        return found

    def check_steps(self) -> None:
        """Check ids, dependencies and references alone, without looking for the actions; see `check`."""
        if problems := list(self._problems()):
            raise self._refused(problems)

    def __getitem__(self, step: str) -> PlanStep:
        """The step of this id."""
        found = next((each for each in self.steps if each.id == step), None)
        if found is None:
            raise step_missing(step, [each.id for each in self.steps])
        return found

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<Plan {self.name!r} of {len(self.steps)} steps>"

    def _problems(self) -> Iterator[tuple[PlanStep, str, str]]:
        known: set[str] = set()
        everything = {each.id for each in self.steps}
        for each in self.steps:
            if type(each.id) is not str or not each.id or len(each.id) > MAX_ID or not each.id.isprintable():
                yield each, f"the id cannot be {shown(each.id)}", "a short text without line breaks"
                continue
            if each.id in known:
                yield each, f"there is a step {each.id!r} already", "give each step an id of its own"
            known.add(each.id)
            for other in each.dependencies:
                if other == each.id:
                    yield each, "it depends on itself", "take it out of its dependencies"
                elif other not in everything:
                    yield (
                        each,
                        f"it depends on {other!r:.80}, and there is no such step",
                        "name a step of this plan",
                    )
            for other in references(each.parameters):
                if other not in each.dependencies:
                    yield (
                        each,
                        f"it takes the output of {other!r:.80}, which is not one of its dependencies",
                        "add it to the dependencies",
                    )
        if cycle := find_cycle(self.steps):
            first = next(each for each in self.steps if each.id == cycle[0])
            yield (
                first,
                f"steps wait for each other: {' -> '.join(cycle)}",
                "take one of these dependencies out",
            )

    def _refused(self, problems: list[tuple[PlanStep, str, str]]) -> InvalidInputError:
        told = [f"{self._where(step)}{why}" for step, why, _hint in problems]
        more = f"; and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        step, _why, hint = problems[0]
        return InvalidInputError(
            "; ".join(told[:_MOST_TOLD]) + more,
            code=ErrorCode.BAD_PLAN,
            hint=hint,
            plan=self.name,
            step=step.id,
            line=step.line,
            problems=told,
        )

    def _where(self, step: PlanStep) -> str:
        place = (
            "" if step.line is None else f"{self.source or 'line'}{':' if self.source else ' '}{step.line}: "
        )
        return f"{place}step {step.id!r:.80}: "

    def _as_data(self, value: Any, depth: int) -> Any:
        """The same parameters with references in the place of handles."""
        if depth > _MAX_DEPTH:
            raise _bad("the parameters are nested too deep", "pass less, or make several steps of it")
        if isinstance(value, Handle):
            return {OUTPUT: self._id(value)}
        if type(value) is list or type(value) is tuple:
            return type(value)(self._as_data(each, depth + 1) for each in value)
        if type(value) is dict:
            return {key: self._as_data(each, depth + 1) for key, each in value.items()}
        return value

    def _id(self, given: Handle | str) -> str:
        if isinstance(given, str):
            return given
        if not isinstance(given, Handle):
            raise _bad(f"a dependency cannot be {shown(given)}", "pass what plan.step() gave, or an id")
        if not given.belongs_to(self):
            raise _bad(f"{given!r} is a step of another plan", "pass handles of this plan alone")
        return given.id


def _names(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1


def _bad(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.BAD_PLAN, hint=hint)
