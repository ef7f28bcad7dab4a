"""The table of settings: key, type, default, environment variable and meaning.

`.env.example` and docs/reference/settings.md are made from it. A `Kind` checks a value and reads one from text, so that
a variable, an option, a file and an argument follow one rule. A setting that can be switched off has a word for it
("never", "all"): TOML has no null, and a stronger place must be able to say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.record import Record
from holdfast.settings.near import close_names, did_you_mean

_MOST = 10**12
"""Numbers end somewhere: one of a thousand digits, which TOML allows, can be neither shown nor stored."""


class Kind(Record):
    """A type of setting: what it is called, which values it takes, and how they are read from text."""

    wanted: str
    fits: Callable[[Any], bool]
    read: Callable[[str], Any]
    nothing: str | None = None
    """The word that switches it off, where it can be."""


class Setting(Record):
    """One key."""

    key: str
    kind: Kind
    default: Any
    about: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "HOLDFAST_" + self.argument.upper()

    @property
    def argument(self) -> str:
        """Its name as a keyword of `Settings.load`."""
        return self.key.replace(".", "_")


class Found(Record):
    """The value of a setting, and where it comes from."""

    value: Any
    origin: str


def _choice(*words: str) -> Kind:
    return Kind(f"one of {', '.join(words)}", lambda value: value in words, str)


def _integer(text: str) -> Any:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text


def _number(text: str) -> Any:
    # Digits and at most one point: float() also takes "nan", "1_0" and blanks.
    whole, point, rest = text.partition(".")
    if not (whole + rest).isascii() or not (whole + rest).isdigit() or len(text) > 15:
        return text
    return float(text) if point else int(text)


def _whole(value: Any) -> bool:
    return type(value) is int and 1 <= value < _MOST


def _seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < _MOST


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)


def _or(word: str, kind: Kind) -> Kind:
    """The same kind, with a word that switches the setting off."""
    return Kind(
        f'{kind.wanted}, or "{word}"', lambda value: value == word or kind.fits(value), kind.read, word
    )


_WORDS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

_TEXT = Kind("a text", lambda value: isinstance(value, str), str)
_NAME = Kind("a text that is not empty", lambda value: isinstance(value, str) and bool(value), str)
_COUNT = Kind("a whole number from 1", _whole, _integer)
_SECONDS = Kind("a number of seconds above 0", _seconds, _number)
_PERIODS = _or("all", _COUNT)._replace(nothing=None)
_FLAG = Kind(
    "true or false",
    lambda value: isinstance(value, bool),
    lambda text: _WORDS.get(text.lower(), text),
)
_LIST = Kind(
    "a list of texts", _texts, lambda text: [part.strip() for part in text.split(",") if part.strip()]
)

_ON = True

_ALL = [
    Setting("session", _NAME, "default", "The session"),
    Setting("color", _choice("auto", "always", "never"), "auto", "Colour for text that people read"),
    Setting("pager", _TEXT, None, "The pager for long output; empty for none"),
    Setting("time", _choice("relative", "iso", "local"), "relative", "How tables show times"),
    Setting("durability", _choice("power", "process"), "power", "What a save survives"),
    Setting("keep.last", _COUNT, None, "Automatic retention: the newest so many"),
    Setting("keep.within", _NAME, None, "Everything younger than 90s, 30m, 1h, 2d or 1w"),
    Setting("keep.hourly", _PERIODS, None, "One for each hour"),
    Setting("keep.daily", _PERIODS, None, "One for each day"),
    Setting("keep.weekly", _PERIODS, None, "One for each week"),
    Setting("keep.monthly", _PERIODS, None, "One for each month"),
    Setting("keep.days", _COUNT, None, "Everything younger than so many days"),
    Setting("keep.manual", _FLAG, None, "What somebody asked for"),
    Setting("keep.tags", _LIST, None, "What has any of these tags"),
    Setting("keep.significant", _FLAG, None, "What is tagged as significant"),
    Setting("keep.at_most", _COUNT, None, "A cap: never more than so many"),
    Setting("keep.max_age_days", _COUNT, None, "A cap: nothing older than so many days"),
    Setting("keep.per", _choice("session", "branch", "agent"), None, "What the numbers count in"),
    Setting(
        "checkpoint.enabled", _FLAG, _ON, "Whether an agent saves; false: only what is asked for by hand"
    ),
    Setting("checkpoint.auto", _FLAG, _ON, "Whether it saves by itself, at the intervals below"),
    Setting("checkpoint.interval_beats", _or("never", _COUNT), 50, "A save when so many beats have passed"),
    Setting(
        "checkpoint.interval_steps", _or("never", _COUNT), None, "A save at each multiple of so many steps"
    ),
    Setting(
        "checkpoint.interval_seconds", _or("never", _SECONDS), None, "A save when so many seconds have passed"
    ),
    Setting("checkpoint.max_count", _or("all", _COUNT), 10, "The newest so many of a session are kept"),
    Setting("checkpoint.prune_after_days", _or("never", _COUNT), 30, "What is older than so many days goes"),
    Setting("checkpoint.compress", _FLAG, _ON, "Whether what is stored is compressed"),
    Setting(
        "checkpoint.export_dir",
        _or("never", _NAME),
        None,
        "A folder that gets a portable file of each checkpoint",
    ),
    Setting("heartbeat.min_interval", _SECONDS, 5.0, "Seconds between two beats when there is work"),
    Setting("heartbeat.max_interval", _SECONDS, 120.0, "Seconds between two beats when there is none"),
    Setting(
        "heartbeat.session", _NAME, None, "The session of the heartbeat, where it is not that of `session`"
    ),
]
SETTINGS = {setting.key: setting for setting in _ALL}
"""Every key there is."""

GROUPS = ("keep", "checkpoint", "heartbeat")
"""What may stand before the dot; `checkpoints` is `checkpoint` too."""

SYNONYMS = {
    "checkpoint.auto_checkpoint": "checkpoint.auto",
    "checkpoint.max_checkpoints_per_session": "checkpoint.max_count",
    "checkpoint.compress_state": "checkpoint.compress",
}
"""Names that agents' own settings files use."""

OTHER_VARIABLES = {
    "HOLDFAST_STORE": "The store: a folder, a file or a URL; otherwise the nearest .holdfast upward",
    "HOLDFAST_CONFIG": "A settings file to read before all others, YAML or TOML",
    "HOLDFAST_SQL_URL": "On PostgreSQL, the role that `holdfast sql` asks as: postgresql://role:password@",
    "HOLDFAST_DEBUG": "1: the command line shows the traceback of an error",
    "HOLDFAST_RESUME": "SESSION@REF: a program that resumes this session starts from that checkpoint, once",
}
"""Variables that are no setting, because no file can give them."""


def setting(key: str) -> Setting:
    """The setting of that name.

    Raises:
        InvalidInputError: There is none; the hint has the near one.
    """
    found = SETTINGS.get(key.replace("checkpoints.", "checkpoint.", 1))
    if found is None:
        near = close_names(key, SETTINGS)
        raise InvalidInputError(
            f"there is no setting {key!r:.60}",
            code=ErrorCode.BAD_CONFIG,
            hint=did_you_mean(near) or "holdfast config lists them",
            candidates=near,
        )
    return found


def brief(value: Any) -> str:
    """A value for a message."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # Python does not write out a number of thousands of digits
        return "a number of very many digits"


def parse(key: str, text: str, where: str) -> Any:
    """The value of a setting from text: a variable, or a word on the command line."""
    known = setting(key)
    value = known.kind.read(text)
    if not known.kind.fits(value):
        raise InvalidInputError(
            f"{where}: {key} has to be {known.kind.wanted}, not {text!r:.60}",
            code=ErrorCode.BAD_CONFIG,
            hint=f"holdfast config --explain {key} shows what is set, and where",
        )
    return value
