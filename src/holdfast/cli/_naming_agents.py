"""The agent that a command line names: `module:name`, imported from the folder that the command runs in.

This is the user's own program, named by the user who runs it, as with `python -m`. Nothing that is stored is ever
imported.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.agents import HeartbeatAgent

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?")


def named_agent(text: str) -> HeartbeatAgent:
    """Import and make the agent: an instance, a class, or a function that returns one; alone in its module, unnamed.

    Raises:
        InvalidInputError: There is no such module or name, importing it failed, or it is no agent.
    """
    from holdfast.agents import HeartbeatAgent

    if not _NAME.fullmatch(text):
        raise _refused(
            f"{text!r} does not name an agent",
            _meant(text) or "write MODULE:NAME, such as scout:Scout for scout.py",
        )
    name, _, attribute = text.partition(":")
    module = _imported(name, attribute)
    found = _attribute(module, attribute) if attribute else _only_agent(module)
    made = found
    if isinstance(found, type) or inspect.isroutine(found):
        try:
            made = found()
        except Exception as error:
            # The user's own code, which may raise anything.
            raise _failed(f"making the agent {text} failed", error) from error
    if not isinstance(made, HeartbeatAgent):
        raise _refused(
            f"{text} is a {type(made).__name__} and no agent",
            "name an instance of a class that is built on holdfast.agents.HeartbeatAgent, or the class itself",
        )
    return made


def _meant(text: str) -> str:
    """The agent of a file that was named by its path; empty where it is something else."""
    path, colon, attribute = text.partition(":")
    name = path.removeprefix("./").removesuffix(".py").replace("/", ".")
    return f"did you mean {name}{colon}{attribute}?" if _NAME.fullmatch(f"{name}{colon}{attribute}") else ""


def _imported(name: str, attribute: str) -> ModuleType:
    folder = os.getcwd()  # noqa: PTH109 - no pathlib at start
    if folder not in sys.path:
        # First, as `python -m` has it: the user's own module wins over one of the same name that is installed.
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _refused(
                f"there is no module {name!r} in this folder, or among those that are installed",
                _meant_within(name, attribute)
                or "run the command where the file is: scout:Scout is class Scout of scout.py",
            ) from error
        raise _failed(f"importing {name} failed", error) from error
    except Exception as error:
        # As above.
        raise _failed(f"importing {name} failed", error) from error


def _meant_within(name: str, attribute: str) -> str:
    """Where the module is there, and what was written behind its name with a dot is not one: what was meant."""
    parent, _, last = name.rpartition(".")
    module = sys.modules.get(parent)
    if module is None:
        return ""
    if last == "py":
        return f"did you mean {parent}{':' * bool(attribute)}{attribute}?"
    return f"did you mean {parent}:{last}?" if hasattr(module, last) else ""


def _attribute(module: ModuleType, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            near = close_names(part, [name for name in vars(value) if not name.startswith("_")])
            hint = did_you_mean(near) or f"its agents are: {', '.join(_agents(module)) or 'none'}"
            raise _refused(f"{module.__name__} has no {path!r}", hint)
        value = getattr(value, part)
    return value


def _agents(module: ModuleType) -> dict[str, Any]:
    """The agents that a module defines itself, by name."""
    from holdfast.agents import HeartbeatAgent

    return {
        name: value
        for name, value in vars(module).items()
        if (
            inspect.isclass(value)
            and issubclass(value, HeartbeatAgent)
            and value.__module__ == module.__name__
        )
        or isinstance(value, HeartbeatAgent)
    }


def _only_agent(module: ModuleType) -> Any:
    found = _agents(module)
    if len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(f"{module.__name__}:{name}" for name in found)
    raise _refused(
        f"{module.__name__} has {len(found) or 'no'} agent{'' if len(found) == 1 else 's'}",
        f"name one of: {names}" if names else "write a class that is built on holdfast.agents.HeartbeatAgent",
    )


def _failed(what: str, error: BaseException) -> InvalidInputError:
    # The innermost place: the line of the user's code that raised, or that cannot be read.
    trace, file, line, said = error.__traceback__, "", 0, str(error)
    while trace is not None:
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if file.startswith("<frozen"):
        # In the import itself: a line of it says nothing about the user's.
        file = ""
    if isinstance(error, SyntaxError) and error.filename:
        file, line, said = error.filename, error.lineno or 0, error.msg
    place = f" ({os.path.basename(file)}:{line})" if file else ""  # noqa: PTH119 - as above
    return _refused(
        f"{what}: {type(error).__name__}: {said}{place}", "HOLDFAST_DEBUG=1 shows the whole traceback"
    )


def _refused(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)
