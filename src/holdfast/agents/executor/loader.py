"""Plans from files: YAML and JSON, and dicts of the same form.

The form is that of a plan's state: `id`, `description`, `action`, `parameters`, `dependencies`, in snake_case or
camelCase. A file is read as if somebody hostile had written it: no aliases, no tags, no unknown field. What is wrong
is said with the line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.agents.executor.action import OPTION_NAMES
from holdfast.agents.executor.step import PlanStep
from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError, UnsupportedError, shown
from holdfast.settings.near import close_names, did_you_mean

MAX_BYTES: Final = 16 * 1024 * 1024
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_OF_A_PLAN: Final = ("name", "query", "context", "steps", "plan")
_OF_A_STATE: Final = ("execution", "current_step_index", "results", "last_error", "edits")
"""A state that was exported is a plan, too: what was done with it is left out."""
_OF_A_STEP: Final = ("id", "description", "action", "parameters", "dependencies", "status", "options")
_OF_A_STATES_STEP: Final = ("signature", "reason")


class Lines(NamedTuple):
    """Where the steps of a plan begin, and what the file is called."""

    file: str | None
    steps: Sequence[int]

    def at(self, index: int) -> str:
        """What a message about this step begins with."""
        if index < len(self.steps):
            return f"{self.file}:{self.steps[index]}: "
        return "" if self.file is None else f"{self.file}: "


_NOWHERE: Final = Lines(None, ())


class ReadPlan(NamedTuple):
    """What a file or a dict says."""

    name: str
    query: str
    context: dict[str, Any]
    steps: list[PlanStep]
    file: str | None


def read_plan(source: Any) -> ReadPlan:
    """Read a file, a dict or a list of steps; see `Plan.load`."""
    if isinstance(source, str | os.PathLike):
        return _from_file(Path(source))
    return _plan_from(source, _NOWHERE)


def step_from(data: Mapping[str, Any], where: str = "", line: int | None = None) -> PlanStep:
    """Make a step of a dict of its fields."""
    if not isinstance(data, Mapping):
        raise _bad(f"{where}a step cannot be {shown(data)}", "write its id, action and parameters", line)
    given = _snake(data, where, line)
    known = (*_OF_A_STEP, *OPTION_NAMES, *_OF_A_STATES_STEP)
    _no_others(given, known, f"{where}a step", line)
    step = given.get("id")
    if isinstance(step, int) and not isinstance(step, bool):
        # YAML reads `id: 1` as a number.
        step = str(step)
    if not isinstance(step, str) or not step:
        raise _bad(f"{where}a step has no id", "give it an id, unique in the plan", line)
    where = f"{where}step {step!r:.80}: "
    parameters = given.get("parameters") or {}
    dependencies = given.get("dependencies") or []
    options = dict(given.get("options") or {})
    options |= {name: given[name] for name in OPTION_NAMES if name in given}
    if not isinstance(given.get("action"), str) or not given["action"]:
        raise _bad(f"{where}it has no action", "name a function, module:function or shell", line)
    if not isinstance(parameters, dict) or not all(isinstance(name, str) for name in parameters):
        raise _bad(f"{where}parameters must be names with values", "write them as name: value", line)
    if not isinstance(dependencies, list | tuple):
        raise _bad(f"{where}dependencies must be a list of ids", "write [a, b]", line)
    if not all(isinstance(each, str | int) for each in dependencies):
        raise _bad(f"{where}dependencies must be ids", "write [a, b]", line)
    if not isinstance(given.get("description", ""), str):
        raise _bad(f"{where}the description must be a text", "put it between quotes", line)
    _no_others(options, OPTION_NAMES, f"{where}options", line)
    return PlanStep(
        id=step,
        description=given.get("description", ""),
        action=given["action"],
        parameters=parameters,
        dependencies=[str(each) for each in dependencies],
        options=options,
        line=line,
    )


def _plan_from(data: Any, lines: Lines) -> ReadPlan:
    if isinstance(data, list | tuple):
        data = {"steps": data}
    if not isinstance(data, Mapping):
        raise _bad(f"{lines.at(-1) if lines.steps else _file(lines)}a plan cannot be {shown(data)}", _FORM)
    top = _snake(data, _file(lines), None)
    _no_others(top, (*_OF_A_PLAN, *_OF_A_STATE), f"{_file(lines)}a plan", None)
    steps = top.get("steps", top.get("plan"))
    if not isinstance(steps, list | tuple) or not steps:
        raise _bad(f"{_file(lines)}the plan has no steps", _FORM)
    for name in ("name", "query"):
        if not isinstance(top.get(name, "x"), str):
            raise _bad(f"{_file(lines)}{name} must be a text", "put it between quotes")
    if not isinstance(top.get("context") or {}, dict):
        raise _bad(f"{_file(lines)}context must be names with values", "write them as name: value")
    read = []
    for index, each in enumerate(steps):
        line = lines.steps[index] if index < len(lines.steps) else None
        read.append(step_from(each, lines.at(index), line))
    return ReadPlan(
        top.get("name") or "plan", top.get("query", ""), top.get("context") or {}, read, lines.file
    )


_FORM: Final = "write a list of steps under `steps`, each with id, action and parameters"


def _file(lines: Lines) -> str:
    return "" if lines.file is None else f"{lines.file}: "


def _from_file(path: Path) -> ReadPlan:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _bad(f"{path} cannot be read: {error.strerror}", "name a YAML or JSON file") from error
    if len(data) > MAX_BYTES:
        raise _bad(f"{path} has more than {MAX_BYTES} bytes", "put large data into files that the steps read")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _bad(f"{path} is not UTF-8 text: {error.reason}", "name a YAML or JSON file") from error
    try:
        read = _read_json if path.suffix.lower() == ".json" else _read_yaml
        return _plan_from(*read(text, path.name))
    except RecursionError as error:
        raise _bad(f"{path.name} is nested too deep", "plans lie a few levels deep") from error


def _read_json(text: str, name: str) -> tuple[Any, Lines]:
    try:
        data = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _bad(f"{name}:{error.lineno}: {error.msg}", "mend the JSON there", error.lineno) from error
    except HoldfastError:
        raise
    except ValueError as error:
        raise _bad(f"{name}: {error}", "mend the JSON there") from error
    return data, Lines(name, _json_lines(text))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [key for key, _value in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"an object has the key {twice!r:.80} twice")
    return made


def _json_lines(text: str) -> list[int]:
    """The line of each step of a plan in JSON, which is known to be well formed."""
    decoder = json.JSONDecoder()
    space = re.compile(r"[\s,:]*")

    def skip(at: int) -> int:
        found = space.match(text, at)
        assert found is not None
        return found.end()

    at = skip(0)
    if text[at] == "{":
        at = skip(at + 1)
        while text[at] != "}":
            key, at = decoder.raw_decode(text, at)
            at = skip(at)
            if key in ("steps", "plan") and text[at] == "[":
                break
            _value, at = decoder.raw_decode(text, at)
            at = skip(at)
    lines: list[int] = []
    if text[at] != "[":
        return lines
    at = skip(at + 1)
    while text[at] != "]":
        lines.append(text.count("\n", 0, at) + 1)
        _value, at = decoder.raw_decode(text, at)
        at = skip(at)
    return lines


def _reader(yaml: Any, name: str) -> Any:
    class PlanReader(yaml.SafeLoader):  # type: ignore[misc]
        """Plain data only, each key once, nothing twice by name."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                line = self.peek_event().start_mark.line + 1
                raise _bad(f"{name}:{line}: it has an alias (*)", "write the value itself, or quote it", line)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - its signature
            seen: set[str] = set()
            for key, _value in node.value:
                line = key.start_mark.line + 1
                if key.id != "scalar":
                    raise _bad(f"{name}:{line}: a key is no text", "write names as text", line)
                if key.value in seen:
                    raise _bad(
                        f"{name}:{line}: the key {key.value!r:.80} is there twice", "take one out", line
                    )
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    return PlanReader


def _read_yaml(text: str, name: str) -> tuple[Any, Lines]:
    yaml = _library(name)
    reader: Any = None
    try:
        reader = _reader(yaml, name)(text)
        root = reader.get_single_node()
        if root is None:
            raise _bad(f"{name}: the file is empty", _FORM)
        return reader.construct_document(root), Lines(name, _yaml_lines(root))
    except yaml.YAMLError as error:
        raise _not_yaml(error, name) from error
    except ValueError as error:
        if isinstance(error, HoldfastError):
            raise
        raise _bad(f"{name}: {error}", "mend the value, or put it between quotes") from error
    finally:
        if reader is not None:
            reader.dispose()


def _library(name: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise UnsupportedError(
            f"{name} is YAML, and PyYAML, which reads it, is not installed",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[yaml]', or write the plan as JSON",
        ) from error
    return yaml


def _not_yaml(error: Any, name: str) -> InvalidInputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = 1 if mark is None else mark.line + 1
    why = getattr(error, "problem", None) or str(error)
    return _bad(f"{name}:{line}: {why}", "plain YAML: names, values and lists, no tags", line)


def _yaml_lines(root: Any) -> list[int]:
    if root.id == "mapping":
        root = next((value for key, value in root.value if key.value in ("steps", "plan")), root)
    return [each.start_mark.line + 1 for each in root.value] if root.id == "sequence" else []


def _snake(data: Mapping[Any, Any], where: str, line: int | None) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in data.items():
        if not isinstance(key, str):
            raise _bad(f"{where}a field cannot be called {shown(key)}", "write names as text", line)
        name = _CAMEL.sub(lambda found: "_" + found[1].lower(), key)
        if name in made:
            raise _bad(f"{where}{key} is given twice", "write it once", line)
        made[name] = value
    return made


def _no_others(given: Mapping[str, Any], known: Sequence[str], what: str, line: int | None) -> None:
    for name in given:
        if name not in known:
            near = close_names(name, known)
            raise _bad(
                f"{what} has no field {name!r:.80}",
                did_you_mean(near) or f"it has: {', '.join(each for each in known)}",
                line,
            )


def _bad(why: str, hint: str, line: int | None = None) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.BAD_PLAN, hint=hint, line=line)
