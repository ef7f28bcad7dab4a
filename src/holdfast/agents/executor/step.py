"""PlanStep: one part of a plan, as data; and how steps refer to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.agents.executor.action import OPTION_NAMES, Action, Options, as_action, find_action
from holdfast.errors import ErrorCode, InvalidInputError

OUTPUT: Final = "$output"
"""`{"$output": "search-a"}` among the parameters is the output of that step."""

MAX_ID: Final = 200


@dataclass(slots=True)
class PlanStep:
    """One part of a plan.

    Attributes:
        id: What it is called in this plan.
        description: What it does, for people.
        action: What does it: a name, `module:function` or `shell`.
        parameters: What the action is given, by name; `{"$output": id}` stands for the output of a step.
        dependencies: The ids of the steps that have to be done before.
        status: pending, running, completed, failed or skipped.
        options: What this step wants otherwise than its action: see `Options`.
        function: The function, where the plan was built from it.
        line: Where it begins in the file that it comes from.
    """

    id: str
    description: str = ""
    action: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    dependencies: list[str] = field(default_factory=list)
    status: str = "pending"
    options: dict[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    line: int | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The step as plain data."""
        record: dict[str, Any] = {
            "id": self.id,
            "description": self.description,
            "action": self.action,
            "parameters": self.parameters,
            "status": self.status,
            "dependencies": self.dependencies,
        }
        return record | ({"options": self.options} if self.options else {})

    def resolved(self, own: Mapping[str, Callable[..., Any]]) -> Action:
        """Its action, with the options that hold for this step."""
        found = as_action(self.function) if self.function is not None else find_action(self.action, own)
        if not self.options:
            return found
        merged = Options(**({name: getattr(found.options, name) for name in OPTION_NAMES} | self.options))
        return Action(found.name, found.function, merged, found.give_up_on)


def references(value: Any) -> list[str]:
    """The ids of the steps whose outputs stand in these parameters, in order, each once."""
    found: dict[str, None] = {}
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            if is_reference(each):
                found[each[OUTPUT]] = None
            else:
                left.extend(reversed(list(each.values())))
        elif isinstance(each, list | tuple):
            left.extend(reversed(each))
    return list(found)


def is_reference(value: dict[Any, Any]) -> bool:
    """Whether a dict among parameters stands for the output of a step."""
    return len(value) == 1 and isinstance(value.get(OUTPUT), str)


def filled(value: Any, output: Callable[[str], Any]) -> Any:
    """Parameters with outputs in the place of references."""
    if isinstance(value, dict):
        if is_reference(value):
            return output(value[OUTPUT])
        return {key: filled(each, output) for key, each in value.items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(filled(each, output) for each in value)
    return value


def find_cycle(steps: Sequence[PlanStep]) -> list[str] | None:
    """The ids of steps that wait for each other, the first once more at the end; None if there are none."""
    after = {each.id: [other for other in each.dependencies if other != each.id] for each in steps}
    waiting = {step: {other for other in others if other in after} for step, others in after.items()}
    dependents: dict[str, list[str]] = {}
    for step, others in waiting.items():
        for other in others:
            dependents.setdefault(other, []).append(step)
    ready = [step for step, others in waiting.items() if not others]
    while ready:
        done = ready.pop()
        waiting.pop(done)
        for step in dependents.get(done, ()):
            waiting[step].discard(done)
            if not waiting[step]:
                ready.append(step)
    if not waiting:
        return None
    path: dict[str, None] = {}
    here = next(iter(waiting))
    while here not in path:
        path[here] = None
        here = min(waiting[here])
    whole = list(path)
    return [*whole[whole.index(here) :], here]


def step_missing(step: str, known: Sequence[str]) -> InvalidInputError:
    """The error where a plan has no such step."""
    from holdfast.settings.near import close_names, did_you_mean

    near = close_names(step, known)
    return InvalidInputError(
        f"there is no step {step!r:.80}",
        code=ErrorCode.STEP_MISSING,
        hint=did_you_mean(near) or f"it has: {', '.join(known[:10])}",
        step=step,
        candidates=near,
    )
