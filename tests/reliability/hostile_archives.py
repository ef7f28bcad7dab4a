"""A program that imports hundreds of hostile files under a limit of memory, and says what became of each.

    python -m tests.reliability.hostile_archives FOLDER

Each file is made here, by rule, and comes with the reason for which it has to be refused, where there is one only.
Prints how many there were, how many reasons they were refused for, and the most memory that the process had.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import resource
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.store.archive.archive_samples import filled, forged

import holdfast
from holdfast import HoldfastError, HoldfastWarning

MEMORY = 1 << 30
"""Bytes of address space; Python and our libraries take a fifth of it before anything is read."""

Hostile = tuple[str, bytes, str | None]
"""The name of a file, its content, and the reason for which it has to be refused; None: any."""

WRONG: tuple[Any, ...] = (7.5, [], {"a": 1}, "\x00", True)


def text_files(good: str) -> Iterator[Hostile]:
    for at in range(0, len(good) - 2, max(1, len(good) // 40)):
        yield "cut.json", good[:at].encode(), None
        yield (
            "flipped.json",
            bytes([*good[:at].encode(), good.encode()[at] ^ 1, *good[at + 1 :].encode()]),
            None,
        )
    for raw in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xe4"):
        yield "bytes.json", good.encode().replace(b"step 4", raw), "not-utf-8"
    for code in ("utf-16", "utf-32", "utf-16-le"):
        yield "code.json", good.encode(code), None
    yield "mark.json", b"\xef\xbb\xbf" + good.encode(), "byte-order-mark"
    for bad in ("\\ud800", "\\udfff", "\\udc00\\ud800", "x\\uDBFFx", "\\ud83d\\u0041"):
        yield "half.json", good.replace("step 4", bad).encode(), "lone-surrogate"
        yield "half_key.json", good.replace('"zebra"', f'"{bad}"').encode(), "lone-surrogate"
    for bad in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 350 + ".0"):
        text = good.replace('"cost_usd": 0.25', f'"cost_usd": {bad}')
        yield "number.json", text.encode(), "not-a-number"
    for bad in ("1" * 500, "0." + "3" * 10_000, "-" + "9" * 100_000, "1e" + "0" * 5_000 + "1"):
        yield "long.json", good.replace('"tokens": 40', f'"tokens": {bad}').encode(), "number-too-long"
    for bad in ("+1", "01", ".5", "0x10", "1_000", "'a'", "undefined", "// 1", "/* 1 */ 1", "1,", ""):
        yield "syntax.json", good.replace('"tokens": 40', f'"tokens": {bad}').encode(), "not-json"
    for bad in ("[]", "null", "7", '"text"', "true", "[1, 2]"):
        yield "other.json", bad.encode(), "not-an-archive"
    yield "other.json", b"{}", "not-an-archive"
    yield "blank.json", b"", "empty"
    yield "blank.json", b"\n\n", "empty"
    yield "blank.jsonl", b"", "empty"


def large_files(good: str) -> Iterator[Hostile]:
    def with_state(state: bytes) -> bytes:
        return good.encode().replace(b'"zebra": 1', b'"zebra": ' + state)

    for many in (11_000, 100_000, 3_000_000):
        yield "deep.json", b"[" * many, "too-many-values" if many > 2_000_000 else "too-deep"
        yield "deep.json", b'{"a":' * many, "too-many-values" if many > 2_000_000 else "too-deep"
        yield "deep.json", with_state(b"[" * many + b"]" * many), None
    for each in (b"{}", b"0", b'""'):
        yield "many.json", with_state(b"[" + each + (b"," + each) * 2_000_000 + b"]"), "too-many-values"
    yield "text.json", with_state(b'"' + b"a" * (65 << 20) + b'"'), "text-too-long"
    yield "text.json", with_state(b'"' + b"\\" * (8 << 20) + b'"'), None
    yield "open.json", b'"' + b"a" * (10 << 20), "not-json"
    yield "open.json", b'{"' + b"\\" * (10 << 20), "not-json"


def packed_files(good: str) -> Iterator[Hostile]:
    packed = gzip.compress(good.encode(), mtime=0)
    for at in range(2, len(packed) - 1, max(1, len(packed) // 12)):
        yield "cut.json.gz", packed[:at], "gzip-damaged"
        yield "flipped.json.gz", packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :], None
    # Many members, one after the other: more than the process may have, from a file of a megabyte.
    member = gzip.compress(b" " * (1 << 20))
    yield "bomb.json.gz", gzip.compress(b"{\n") + member * 1100, "too-many-bytes"
    yield "bomb.jsonl.gz", gzip.compress(b'{"a": "') + member * 1100, "too-many-bytes"
    # A declared size is not a limit: the last four bytes claim that there is one byte.
    maker = zlib.compressobj(1, wbits=31)
    bomb = b"".join(maker.compress(bytes(1 << 20)) for _ in range(257)) + maker.flush()
    yield "bomb.json.gz", bomb[:-4] + b"\x01\x00\x00\x00", "too-many-bytes"
    yield "twice.json.gz", gzip.compress(packed), "not-utf-8"
    yield "bomb.json.gz", gzip.compress(b"[" * (3 << 20)), "too-many-values"
    yield "lines.jsonl.gz", gzip.compress(b"\n" * (50 << 20)), "empty"
    yield "after.json.gz", packed + b"garbage", "gzip-damaged"
    yield "z.json.zst", b"\x28\xb5\x2f\xfd" + bytes(100), None
    yield "z.json", b"\x28\xb5\x2f\xfd\x20", None
    yield "b.json", bz2.compress(good.encode()), None
    yield "x.json", lzma.compress(good.encode()), None
    yield "p.json", b"PK\x03\x04" + bytes(60), None
    yield "s.json", b"SQLite format 3\x00" + bytes(60), None


def field_files(good: dict[str, Any]) -> Iterator[Hostile]:
    for name, was in good.items():
        less = {key: value for key, value in good.items() if key != name}
        yield (
            "less.json",
            json.dumps(less).encode(),
            None if name in ("format", "version") else "bad-field",
        )
        value = json.dumps(was)
        twice = json.dumps(good).replace(f'"{name}": {value}', f'"{name}": {value}, "{name}": {value}', 1)
        yield "twice.json", twice.encode(), "duplicate-key"
        for wrong in WRONG:
            if name != "state" and wrong != was:
                yield "wrong.json", json.dumps(good | {name: wrong}).encode(), None
    for name in ("more", "__class__", "constructor", "$schema", ""):
        yield "more.json", json.dumps(good | {name: 1}).encode(), "bad-field"
    for version in (0, 2, -1, 10**30, "1", 1.0, True, None, [1]):
        yield "version.json", json.dumps(good | {"version": version}).encode(), "version"
    tricks = ("../../etc/passwd", "/etc/passwd", "a\x00b", "a\nb", "\x1b[2J", "x" * 5_000, "C:\\x\x07", "")
    for trick in tricks:
        for name in ("id", "root", "prev", "nonce", "created_at"):
            yield "trick.json", json.dumps(good | {name: trick}).encode(), "bad-field"
        yield "trick.json", json.dumps(good | {"parents": [trick]}).encode(), "bad-field"
        yield "trick.json", json.dumps(good | {"branch": trick}).encode(), "bad-field"
        yield "trick.json", json.dumps(good | {"status": trick}).encode(), "bad-field"
        if not trick.isprintable() or len(trick) > 2_000 or not trick:
            for name in ("session", "key", "agent", "project"):
                yield "trick.json", json.dumps(good | {name: trick}).encode(), "bad-field"
            yield "trick.json", json.dumps(good | {"tags": [trick]}).encode(), "bad-field"
    for name, reason in (("root", "root-differs"), ("id", "id-differs"), ("seal", "seal-differs")):
        for digit in "0f":
            yield "hash.json", json.dumps(good | {name: digit * 64}).encode(), reason
    yield "cycle.json", json.dumps(good | {"parents": [good["id"]]}).encode(), "id-differs"


def tagged_files(good: dict[str, Any]) -> Iterator[Hostile]:
    def holding(value: Any) -> bytes:
        return json.dumps(good | {"state": value}).encode()

    code: tuple[Any, ...] = (
        "os.system",
        "builtins.eval",
        "__import__('os').system('true')",
        "!!python/object/apply:os.system",
        "subprocess.Popen",
        "pickle.loads",
        "../../tmp/evil.py",
        "${jndi:ldap://x}",
        "{{7*7}}",
        "object.__subclasses__",
        "",
        "Tuple",
        "tuple ",
        None,
        7,
        [],
        {},
        True,
    )
    for name in code:
        yield "type.json", holding({"$type": name, "$value": ["true"]}), "bad-value"
    bad: dict[str, list[Any]] = {
        "bytes": ["x", "=", 7, None, "YQ=", "YQ==YQ=="],
        "int": ["1_000", " 1", "0b1", "1e5", "\uff19", 7, "9" * 5_000],
        "float": ["1.5", "NaN", 1.5, "infinity"],
        "datetime": ["yesterday", "2026-13-01", 7, "2026-01-01T25:00:00", "0000-01-01", None],
        "date": ["2026-02-30", 1, ""],
        "time": ["24:61", []],
        "timedelta": [[1], ["a", 0, 0], [10**18, 0, 0], "x"],
        "timezone": [[10**15], ["x"], [], [0, 7]],
        "ZoneInfo": ["../../etc/passwd", "/etc/passwd", "No/Such", "Europe", "a\x00b", ""],
        "Decimal": ["x", "1.2.3", 7, ""],
        "Fraction": ["1/0", "1/-2", "x/2", "1/2/3"],
        "UUID": ["x", 7, "0" * 31],
        "complex": ["x", 7],
        "tuple": ["x", 7, {"a": 1}],
        "set": [[1, 1], [[1]], "x", [{"a": 1}]],
        "frozenset": [[1, 1], [[]]],
        "dict": [[[1]], [[1, 2, 3]], [[[], 1]], "x", [[1, 2], [1, 3]], {"a": 1}],
        "Counter": [[["a"]], 7],
        "OrderedDict": [[["a", 1], ["a", 2]]],
        "deque": ["x", 7],
        "range": [[1, 2], [1, 2, 0], [1, 2, "x"], ["a", 1, 1]],
        "slice": [[1], 7],
        "ellipsis": [1, "x"],
        "IPv4Address": ["300.0.0.1", 7, ""],
        "IPv6Network": ["::1/129", "x"],
        "PosixPath": [7, None],
        "opaque": [1],
        "str": ["\\", "\\x", "\\ud8", "\\u0041", 7],
    }
    for kind, several in bad.items():
        for value in several:
            yield "value.json", holding({"$type": kind, "$value": value}), "bad-value"
    yield "value.json", holding({"$type": "defaultdict", "$value": [], "$factory": "eval"}), "bad-value"
    yield "value.json", holding({"$type": "deque", "$value": [1, 2], "$maxlen": 1}), "bad-value"
    yield "value.json", holding({"$type": "deque", "$value": [], "$maxlen": -1}), "bad-value"
    # No tags, but data: another state than the root says.
    yield "value.json", holding({"$type": "tuple", "$value": [], "$more": 1}), "root-differs"
    yield "value.json", holding({"$type": "tuple"}), "root-differs"
    yield "value.json", holding({"$type": "opaque", "$value": 1, "$name": 7, "$version": 1}), "bad-value"
    yield "value.json", holding({"$type": "opaque", "$value": 1, "$name": "A", "$version": 0}), "bad-value"
    yield "value.json", holding({"$type": "float", "$value": "nan", "$bits": "00"}), "bad-value"
    yield "value.json", holding({"$type": "float", "$value": "nan", "$bits": "3ff0000000000000"}), "bad-value"
    yield "value.json", holding({"$type": "datetime", "$value": "2026-01-01", "$zone": "../x"}), "bad-value"
    # Whole numbers that all have the same hash: a set of them would take quadratic time.
    equal = [{"$type": "int", "$value": str((2**61 - 1) * each)} for each in range(20_000)]
    yield "equal.json", holding({"$type": "set", "$value": equal}), "bad-value"
    yield "equal.json", holding({"$type": "dict", "$value": [[each, 0] for each in equal]}), "bad-value"
    nested: Any = 1
    for _ in range(300):
        nested = {"$type": "tuple", "$value": [nested]}
    yield "nested.json", holding(nested), "bad-value"


def line_files(lines: list[str]) -> Iterator[Hostile]:
    def joined(*several: str) -> bytes:
        return "".join(several).encode()

    header, *rest = lines
    told = json.loads(header)
    yield "short.jsonl", joined(header, *rest[:-1]), "cut-short"
    yield "head.jsonl", joined(header), "cut-short"
    yield "half.jsonl", joined(*lines)[:-40], "cut-short"
    yield "gap.jsonl", joined(header, *rest[:2], "\n", *rest[2:]), "empty-line"
    yield "gap.jsonl", joined(*lines, "\n"), "empty-line"
    yield "twice.jsonl", joined(header, *rest[:-1], rest[0]), "cut-short"
    foreign = {"version": "0.0.1", "id": "x", "timestamp": 1, "execution_id": told["session"], "snapshot": {}}
    yield "foreign.jsonl", joined(header, *rest[:-1], json.dumps(foreign) + "\n"), "not-of-session"
    yield "heads.jsonl", joined(header, header, *rest), "misplaced-header"
    yield "late.jsonl", joined(*rest, header), "misplaced-header"
    yield "more.jsonl", joined(json.dumps(told | {"checkpoints": 1}) + "\n", *rest), "seal-differs"
    yield "more.jsonl", joined(json.dumps(told | {"branches": {}}) + "\n", *rest), "seal-differs"
    for wrong in WRONG:
        for name in ("checkpoints", "branches", "current", "session"):
            yield "head.jsonl", joined(json.dumps(told | {name: wrong}) + "\n", *rest), None
    yield "head.json", header.encode(), "misplaced-header"
    one, two = (json.loads(each) for each in rest[:2])
    looped = [json.dumps(one | {"parents": [two["id"]]}) + "\n", rest[1]]
    yield "loop.jsonl", joined(*looped), "id-differs"
    yield "bad.jsonl", joined(header, *rest[:3], rest[3].replace("step 3", "step 9"), *rest[4:]), "id-differs"


def foreign_files() -> Iterator[Hostile]:
    good = {"version": "0.0.1", "id": "c1", "timestamp": 1, "execution_id": "e", "snapshot": {"a": 1}}
    for name in ("id", "snapshot", "timestamp"):
        for wrong in (None, *([] if name == "snapshot" else [{}, True, "\x00", -1.5])):
            yield "foreign.json", json.dumps(good | {name: wrong}).encode(), None
    for wrong in ("1.0.0", "0.0", 1, None, "0.0.1; drop table", "9" * 1000):
        yield "foreign.json", json.dumps(good | {"version": wrong}).encode(), "version"
    for wrong in ("../x\n", "", 7, ["a"], "x" * 300):
        yield "foreign.json", json.dumps(good | {"execution_id": wrong}).encode(), "bad-field"


def corpus(folder: Path) -> Iterator[Hostile]:
    with holdfast.open("memory:") as store:
        session = filled(store)
        session.export("#5", folder / "good.json")
        session.export(path=folder / "good.jsonl", session=True)
    simple = forged(folder / "good.json", folder / "simple.json", state={"zebra": 1}, metadata={"n": 1})
    good = json.loads(simple.read_text())
    text = json.dumps(good, indent=2)
    yield from text_files(text)
    yield from large_files(text)
    yield from packed_files(text)
    yield from field_files(good)
    yield from tagged_files(good)
    yield from line_files((folder / "good.jsonl").read_text().splitlines(keepends=True))
    yield from foreign_files()


def main(folder: Path) -> None:
    # Of a line that was cut short; what is left is refused.
    warnings.simplefilter("ignore", HoldfastWarning)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    reasons: dict[str, int] = {}
    wrong: list[str] = []
    count = 0
    with holdfast.open("memory:") as store:
        for name, data, expected in corpus(folder):
            path = folder / f"{count}-{name}"
            path.write_bytes(data)
            del data
            try:
                store.import_(path)
            except HoldfastError as error:
                reason = str(error.details.get("reason"))
                if expected not in (None, reason) or not error.hint or reason == "None":
                    wrong.append(f"{path.name}: {reason} instead of {expected}: {error}")
                reasons[reason] = reasons.get(reason, 0) + 1
            except Exception as error:
                # Whatever is none of ours is what this program looks for.
                wrong.append(f"{path.name}: {type(error).__name__} instead of {expected}: {error}")
            else:
                wrong.append(f"{path.name} was imported, and should have been refused: {expected}")
            path.unlink()
            count += 1
        assert store.sessions() == []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"files": count, "reasons": reasons, "wrong": wrong, "peak_kilobytes": peak}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
