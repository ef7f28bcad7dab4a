"""Secrets of 22 kinds are found, and ordinary logs and code are left alone."""

from __future__ import annotations

import random
import string
import sysconfig
from pathlib import Path

import pytest

from holdfast.workspace.environment import capture_environment
from holdfast.workspace.secrets import KINDS, find_secrets, is_secret_file, is_secret_name, redact

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def samples(seed: int) -> dict[str, list[str]]:
    """Secrets that nobody ever had, in the formats that their issuers publish; put together here, so that no scanner
    takes this file for a leak."""
    chance = random.Random(seed)

    def some(count: int, of: str = LETTERS) -> str:
        return "".join(chance.choice(of) for _ in range(count))

    url = LETTERS + "_-"
    return {
        "aws-access-key": ["AK" + "IA" + some(16, string.ascii_uppercase + "234567")],
        "aws-secret-key": [some(40, LETTERS + "/+")],
        "github-token": [f"gh{kind}_" + some(36) for kind in "pousr"]
        + ["github_" + "pat_" + some(22) + "_" + some(59)],
        "gitlab-token": ["glp" + "at-" + some(20, url)],
        "slack-token": ["xox" + "b-" + some(12, string.digits) + "-" + some(24), "xap" + "p-1-A0" + some(30)],
        "slack-webhook": [
            "https://hooks.slack" + ".com/services/T" + some(8) + "/B" + some(8) + "/" + some(24)
        ],
        "stripe-key": ["sk_" + "live_" + some(24), "rk_" + "test_" + some(24), "whs" + "ec_" + some(32)],
        "openai-key": ["sk" + "-proj-" + some(48, url), "sk" + "-" + some(48)],
        "anthropic-key": ["sk" + "-ant-api03-" + some(90, url)],
        "google-key": [
            "AI" + "za" + some(35, url),
            "GOC" + "SPX-" + some(28, url),
            "ya" + "29." + some(60, url),
        ],
        "npm-token": ["np" + "m_" + some(36)],
        "pypi-token": ["py" + "pi-AgEIcHlwaS5vcmc" + some(60, url)],
        "huggingface-token": ["h" + "f_" + some(34, string.ascii_letters)],
        "sendgrid-key": ["S" + "G." + some(22, url) + "." + some(43, url)],
        "twilio-key": ["S" + "K" + some(32, HEX)],
        "telegram-token": [some(9, "123456789") + ":AA" + some(32, url) + some(1)],
        "discord-token": ["M" + some(25) + "." + some(6) + "." + some(38)],
        "azure-key": ["AccountKey=" + some(86, LETTERS + "+/") + "=="],
        "private-key": [
            "-----BEGIN RSA PRIV"
            "ATE KEY-----\n" + "\n".join(some(64) for _ in range(12)) + "\n-----END RSA PRIV" + "ATE KEY-----"
        ],
        "jwt": ["ey" + "J" + some(30, url) + ".ey" + "J" + some(60, url) + "." + some(43, url)],
        "url-password": ["postgresql://app:" + some(16) + "@db.example.org/main"],
        "named-secret": ['password = "' + some(12) + '"'],
    }


CARRIERS = ["{}", "TOKEN={}", 'key: "{}"', "error: request with {} was refused", "--header 'X: {}' --verbose"]


def secret_part(kind: str, sample: str) -> str:
    if kind == "azure-key":
        return sample.partition("=")[2]
    if kind == "url-password":
        return sample.split(":")[2].partition("@")[0]
    if kind == "named-secret":
        return sample.split('"')[1]
    return sample


def test_there_are_22_kinds_and_each_has_samples():
    assert len(KINDS) == 22
    assert set(samples(0)) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_none_of_a_kind_is_missed(kind):
    for seed in range(40):
        for sample in samples(seed)[kind]:
            for carrier in CARRIERS:
                text = carrier.format(sample)
                if kind == "aws-secret-key":
                    text = f"AWS_SECRET_ACCESS_KEY={sample}"
                left = redact(f"before {text} after")
                for line in secret_part(kind, sample).splitlines():
                    assert line not in left
                assert left.startswith("before")


def test_half_a_key_of_a_cut_output_is_no_clear_text():
    whole = samples(1)["private-key"][0].splitlines()

    assert whole[5] not in redact("\n".join(whole[:8]))
    assert whole[5] not in redact("\n".join(whole[3:]))


def test_ordinary_code_and_logs_have_at_most_one_false_alarm_in_a_hundred_lines():
    library = Path(sysconfig.get_paths()["stdlib"])
    lines = [
        line
        for path in sorted(library.glob("*.py"))[:80]
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    lines += [
        f"2026-11-18T12:00:{n % 60:02} INFO request {n:032x} took {n} ms sha256={n:064x} https://example.org:8080/a/{n}"
        for n in range(500)
    ]
    lines += [
        f"commit {n:040x} token_count={n} password=None secret: str api_key: str = get_key()"
        for n in range(500)
    ]
    alarms = [line for line in lines if next(find_secrets(line), None)]

    assert len(lines) > 20_000
    assert len(alarms) / len(lines) < 0.001, alarms[:10]


def test_the_environment_is_kept_by_an_allow_list_and_without_secrets():
    given = {
        "PATH": "/bin",
        "PYTHONPATH": "src",
        "HOME": "/home/x",
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTHON_TOKEN": "abc",
    }
    given |= {f"TEST_{n}": each for n, kind in enumerate(samples(3).values()) for each in kind}
    given["TEST_AWS_SECRET_ACCESS_KEY"] = samples(3)["aws-secret-key"][0]
    given.pop("TEST_1")  # forty letters behind a plain name are no secret that anybody could tell
    given |= {"MY_FLAG": "1"}

    assert capture_environment(given) == {"PATH": "/bin", "PYTHONPATH": "src", "CUDA_VISIBLE_DEVICES": "0"}
    assert capture_environment(given, allow=["MY_*"])["MY_FLAG"] == "1"


def test_names_of_variables_and_files_that_hold_secrets():
    assert all(
        map(
            is_secret_name,
            ["DB_PASSWORD", "API_KEY", "GITHUB_TOKEN", "SECRET", "SSH_AUTH_SOCK", "SESSION_COOKIE"],
        )
    )
    assert not any(map(is_secret_name, ["PATH", "KEYBOARD", "PYTHONPATH", "AUTHOR", "MONKEY"]))
    assert all(
        map(is_secret_file, [".env", "a/.env.local", "id_rsa", "certs/server.pem", "credentials.json"])
    )
    assert not any(map(is_secret_file, [".env.example", "env.py", "keys.py", "secrets.py", "a/monkey.txt"]))
