"""Which value of a setting wins, and what is wrong with the others.

    an argument or option  >  HOLDFAST_*  >  the file that was named (--config, HOLDFAST_CONFIG)
        >  config.toml beside the store  >  [tool.holdfast] in pyproject.toml
        >  holdfast/config.toml in XDG_CONFIG_HOME  >  the default

Every value is checked where it is read, also one that a stronger place overrides. A variable that looks like one of a
group and is none is an error too, and so is one that is a slip away from one of ours: HOLDFAST_CHECKPOINT_MAXCOUNT=5
and HOLDFAST_CHEKPOINT_MAX_COUNT=5 must not be passed over in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from holdfast.errors import ErrorCode, HoldfastError, InvalidInputError
from holdfast.settings.files import ConfigFile
from holdfast.settings.keys import GROUPS, OTHER_VARIABLES, SETTINGS, Found, parse
from holdfast.settings.near import close_names, did_you_mean
from holdfast.settings.reading import read_file

_GROUP_VARIABLES = tuple(f"HOLDFAST_{group.upper()}_" for group in GROUPS)


def resolve(
    given: Mapping[str, Found],
    files: Iterable[ConfigFile],
    *,
    environ: Mapping[str, str] = os.environ,
    lines: bool = False,
    problems: list[HoldfastError] | None = None,
) -> dict[str, Found]:
    """Every setting with its value and its origin.

    Args:
        given: Those of the command line, or of a call.
        files: The places where settings may be, the strongest first.
        environ: The variables.
        lines: Also say on which line of a file each one stands, which takes another look at the file.
        problems: What is wrong in a file or a variable is put there, and the rest counts.

    Raises:
        InvalidInputError: A file or a variable cannot be used (`bad-config`).
        UnsupportedError: A YAML file was named, and nothing is installed that reads it.
    """
    found = {known.key: Found(known.default, "default") for known in SETTINGS.values()}
    for file in reversed(list(files)):
        if file.counts:
            found |= read_file(file, lines=lines, problems=problems)
    for read in _of_variables(environ):
        if not isinstance(read, HoldfastError):
            found |= read
        elif problems is None:
            raise read
        else:
            problems.append(read)
    return found | dict(given)


def _of_variables(environ: Mapping[str, str]) -> Iterator[dict[str, Found] | HoldfastError]:
    """The setting of each variable, or what is wrong with it."""
    variables = {known.variable: known.key for known in SETTINGS.values()}
    for name, key in variables.items():
        text = environ.get(name, "")
        # The one variable for which being empty means something: no pager.
        if text or (key == "pager" and name in environ):
            try:
                yield {key: Found(parse(key, text, name), name)}
            except InvalidInputError as error:
                yield error
    for name in environ:
        if (
            not name.startswith("HOLDFAST_")
            or name in variables
            or name in OTHER_VARIABLES
            or not environ[name]
        ):
            continue
        near = close_names(name, [*variables, *OTHER_VARIABLES])
        if near or name.startswith(_GROUP_VARIABLES):
            yield InvalidInputError(
                f"there is no variable {name!r:.60}",
                code=ErrorCode.BAD_CONFIG,
                hint=did_you_mean(near) or f"unset {name:.60}; holdfast config lists the settings",
                candidates=near,
            )
