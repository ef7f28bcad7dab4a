"""Bytes that nobody encoded: they end in a value or in an error of ours, and run no code."""

from __future__ import annotations

import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import ormsgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.objects.samples import SAMPLES, TYPES, records
from tests.values import values

from holdfast import HoldfastError
from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque

CODES = st.one_of(st.integers(0, 30), st.integers(0, 127))


def read_value(body: bytes) -> None:
    """Decode; it is a value that can be saved again, or an error with a hint."""
    found = outcome(lambda: decode_value(body, TYPES))
    if isinstance(found, HoldfastError):
        assert found.hint


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except HoldfastError as error:
        return error


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xc1")
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\xdf\x7f\xff\xff\xff\xc0")
@example(b"\x81\x01\x01")
@example(b"\xa2\xff\xff")
@example(b"\x01\x02")
@example(b"\x91\x01" + b"\xcf" + b"\x00" * 8)
def test_arbitrary_bytes_are_a_value_or_an_error(body):
    read_value(body)


@given(values(records=records(), max_leaves=8), st.data())
def test_changed_bytes_are_a_value_or_an_error(value, data):
    body = bytearray(encode_value(value, TYPES))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(body)))
        end = data.draw(st.integers(start, min(len(body), start + 4)))
        body[start:end] = data.draw(st.binary(max_size=4))
    read_value(bytes(body))


@st.composite
def crafted(draw, depth: int = 0):
    """MessagePack that is well formed, with extensions that make no sense."""
    simple = st.one_of(
        st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(), st.text(max_size=6),
        st.binary(max_size=6), st.sampled_from([cls.__name__ for cls in SAMPLES]),
    )  # fmt: skip
    if depth > 3 or draw(st.booleans()):
        return draw(simple)
    kind = draw(st.integers(0, 4))
    items = draw(st.lists(crafted(depth=depth + 1), max_size=9 if kind == 4 else 5))
    if kind == 0:
        return items
    if kind == 1:
        return {str(at): item for at, item in enumerate(items)}
    if kind == 2:
        return ormsgpack.Ext(draw(CODES), draw(st.binary(max_size=20)))
    return ormsgpack.Ext(draw(CODES), ormsgpack.packb(items))


@given(crafted())
def test_well_formed_nonsense_is_a_value_or_an_error(nonsense):
    read_value(ormsgpack.packb(nonsense))


@given(st.sampled_from([cls.__name__ for cls in SAMPLES]), st.integers(-2, 3), crafted(), crafted())
def test_nonsense_under_a_registered_name_is_a_value_or_an_error(name, version, data, extra):
    record = ormsgpack.Ext(msgpack.RECORD, ormsgpack.packb([name, version, data, extra]))
    read_value(ormsgpack.packb(record))


@pytest.mark.parametrize(
    "name",
    ["os:system", "os.system", "builtins.eval", "builtins:exec", "subprocess.Popen", "Opaque", "", "../x"],
)
def test_a_record_that_names_code_is_only_a_record(name):
    payload = ormsgpack.packb([name, 1, ["touch", "/tmp/owned"], {"args": [1]}])
    value = decode_value(ormsgpack.packb(ormsgpack.Ext(msgpack.RECORD, payload)), TYPES)
    assert value == Opaque(name, 1, ["touch", "/tmp/owned"], {"args": [1]})


AUDITED = """
    import sys
    import ormsgpack
    from holdfast import HoldfastError
    from holdfast.objects.codec import msgpack
    from holdfast.objects.codec.decode import decode_value
    from holdfast.objects.codec.registry import GLOBAL

    seen = []
    ALLOWED = {"decimal", "_decimal", "numbers", "fractions", "uuid", "ipaddress", "zoneinfo", "_uuid"}

    def hook(event, arguments):
        if event == "import" and not arguments[0].partition(".")[0] in ALLOWED:
            seen.append((event, arguments[0]))
        if event in {"exec", "compile"} or event.startswith(("os.", "subprocess.", "socket.", "ctypes.")):
            seen.append((event, str(arguments)[:200]))
        if event == "open" and not str(arguments[0]).endswith((".py", ".pyc", ".so")):
            seen.append((event, arguments[0]))

    hostile = [ormsgpack.Ext(code, payload) for code in range(128) for payload in (
        b"", b"cos\\nsystem\\n(S'id'\\ntR.", b"__import__('os').system('id')", b"../../../../etc/passwd",
        b"os.system", b"/etc/passwd", b"tzdata.evil/os", ormsgpack.packb(["os:system", 1, ["id"], None]),
        ormsgpack.packb(["os.system"]), ormsgpack.packb([b"\\x07\\xe5\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00", None]),
        ormsgpack.packb(["__import__", "os", "eval", 1]), ormsgpack.packb({"__class__": "os.system"}),
    )]
    bodies = [ormsgpack.packb(item) for item in hostile]
    for body in bodies:
        try:
            decode_value(body, GLOBAL)
        except HoldfastError:
            pass
    sys.addaudithook(hook)
    for body in bodies:
        try:
            decode_value(body, GLOBAL)
        except HoldfastError:
            pass
    print(len(bodies), seen)
"""


def test_nothing_is_imported_opened_or_run_for_hostile_bytes():
    program = textwrap.dedent(AUDITED)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{128 * 12} []"


def bounded(body: bytes) -> None:
    """Decode it with room for little more than the interpreter; an error of ours is fine, MemoryError is not."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + (256 << 20), limits[1]))
    try:
        decode_value(body, TYPES)
    except HoldfastError:
        pass
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _address_space() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_claims_of_size_cost_no_memory():
    for header in (
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
    ):
        bounded(header)
        bounded(header * 2000)
        bounded(b"\xc9\x00\x00\x00\x05\x02" + header)
    bounded(b"\xc9\xff\xff\xff\xff\x02")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_extensions_in_each_other_do_not_multiply_memory():
    body = ormsgpack.packb([b"x" * (8 << 20)])
    for _ in range(150):
        body = ormsgpack.packb([ormsgpack.Ext(msgpack.TUPLE, body)])
    bounded(body)


def test_keys_made_to_collide_are_refused():
    modulus = (1 << 61) - 1
    clashing = [number * modulus for number in range(8, 60_000)]
    for code, items in (
        (msgpack.SET, clashing),
        (msgpack.PAIRS, [part for key in clashing for part in (key, 0)]),
    ):
        body = encode_value(tuple(items), TYPES)
        # A tuple made into a set: the code is all that differs.
        assert body[0] == 0xC9
        assert body[5] == msgpack.TUPLE
        with pytest.raises(HoldfastError, match="equal hashes"):
            decode_value(body[:5] + bytes((code,)) + body[6:], TYPES)
