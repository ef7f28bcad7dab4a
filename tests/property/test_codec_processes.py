"""A value crosses into another process, with another hash seed, and comes back as the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.unit.objects.samples import TYPES, keys, records
from tests.values import identical, values

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value

ROOT = Path(__file__).resolve().parents[2]

ECHO = """
    import sys
    from holdfast.objects.codec.decode import decode_value
    from holdfast.objects.codec.encode import encode_value
    from holdfast.objects.codec.registry import TypeRegistry
    from tests.unit.objects.samples import TYPES

    for line in sys.stdin:
        body = bytes.fromhex(line)
        for types in (TYPES, TypeRegistry()):
            print(encode_value(decode_value(body, types), types).hex(), flush=True)
"""


@pytest.fixture(scope="module", params=["1", "2"])
def other_process(request) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ECHO)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONHASHSEED": request.param,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        },
    )
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(value=values(records=records(), keys=keys()))
def test_a_value_means_the_same_in_another_process(other_process, value):
    body = encode_value(value, TYPES)
    other_process.stdin.write(body.hex() + "\n")
    other_process.stdin.flush()
    known, unknown = (bytes.fromhex(other_process.stdout.readline()) for _ in range(2))
    assert known == unknown == body
    assert identical(decode_value(known, TYPES), value)
