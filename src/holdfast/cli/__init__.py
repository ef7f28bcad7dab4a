"""The command line, `holdfast`: a thin skin over the public API.

stdout is data, stderr is talk. On a terminal data is a table for people; in a pipe it is TSV with whole ids and ISO
times; with `--json` it is one document whose schema is in `docs/spec/json/`. Every failure has a code, a hint and an
exit code.
"""

from holdfast.cli.app import cli, main

__all__ = ["cli", "main"]
