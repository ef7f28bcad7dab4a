"""Secrets: found by the published formats of those who issue them, and replaced before anything is stored.

`redact` replaces each secret in a text by `[redacted:KIND]`. A token is known by its issuer's prefix and length; where
a secret has no form of its own (a password), by the name in front of it. The patterns prefer a missed exotic format
to an unreadable log: tests/workspace/test_secrets.py measures both kinds of mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["KINDS", "find_secrets", "is_secret_file", "is_secret_name", "redact"]

_START: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"
_NAMED: Final = (
    r"(?:pass(?:word|wd|phrase)|secret(?:[_-]?key)?|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token"
    r"|private[_-]?key|client[_-]?secret|token)"
)
# Quoted, or with a digit among letters: `password = get_password()` and `token: str` are code, not secrets.
_LITERAL: Final = (
    r"(?:\"(?P<q>[^\"\s{}$<>()\[\]]{8,})\"|'(?P<s>[^'\s{}$<>()\[\]]{8,})'"
    r"|(?P<b>(?=[^\s\"']*[0-9])(?=[^\s\"']*[A-Za-z])[^\s\"'`,;(){}\[\]<>$&|.]{8,})(?![\w.(\[]))"
)

_PATTERNS: Final[Mapping[str, str]] = {
    "aws-access-key": _START + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _END,
    "aws-secret-key": r"(?i:aws[\w.-]{0,20}(?:secret|session)[\w.-]{0,20}[\"']?\s{0,3}[=:]\s{0,3}[\"']?)"
    r"(?P<value>[A-Za-z0-9/+=]{40,})",
    "github-token": _START + r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{59,255})" + _END,
    "gitlab-token": _START + r"gl(?:pat|ptt|dt|rt|cbt|oas|soat|ft|agent|feed|imt)-[A-Za-z0-9_.-]{20,64}",
    "slack-token": _START
    + r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,255}|"
    + _START
    + r"xapp-\d-[A-Za-z0-9-]{20,255}",
    "slack-webhook": r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_+-]{20,}",
    "stripe-key": _START + r"(?:(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{32,})",
    "openai-key": _START
    + r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,255}|[A-Za-z0-9]{32,64}"
    + _END
    + ")",
    "anthropic-key": _START + r"sk-ant-[A-Za-z0-9_-]{20,255}",
    "google-key": _START + r"(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{20,})",
    "npm-token": _START + r"npm_[A-Za-z0-9]{36}" + _END,
    "pypi-token": _START + r"pypi-AgE[A-Za-z0-9_-]{50,}",
    "huggingface-token": _START + r"(?:hf_|api_org_)[A-Za-z]{34}" + _END,
    "sendgrid-key": _START + r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "twilio-key": _START + r"SK[0-9a-f]{32}" + _END,
    "telegram-token": _START + r"\d{8,10}:AA[A-Za-z0-9_-]{33}" + _END,
    "discord-token": _START + r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"
    r"|https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{15,20}/[A-Za-z0-9_-]{60,70}",
    "azure-key": r"(?i:(?:AccountKey|SharedAccessKey)=)(?P<value>[A-Za-z0-9+/]{40,90}={0,2})",
    "private-key": r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]|-(?!----END))*(?:-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
    # A cut output may begin inside one.
    r"|\A[A-Za-z0-9+/=\s]{30,}-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----",
    "jwt": _START + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    "url-password": r"\b[a-z][a-z0-9+.-]{1,30}://[^\s/:@\"'<>{}$]{0,64}:(?P<value>[^\s/@\"'<>{}$]{3,256})@(?=[\w\[])",
    "named-secret": r"(?i:(?<![a-z])(?:[a-z0-9]{1,24}[_-]){0,4}"
    + _NAMED
    + r"(?:[_-][a-z0-9]{1,12})?[\"']?\s{0,3}(?:=|:=|:)\s{0,3}"
    r"|authorization:\s{0,3}(?:bearer|basic|token)\s+|--" + _NAMED + r"[ =])" + _LITERAL,
}
KINDS: Final = tuple(_PATTERNS)
"""What is looked for, by the name that stands in its place."""

_COMPILED: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS.items())
_GROUPS: Final = ("value", "q", "s", "b")
_HARMLESS: Final = re.compile(
    r"(?i)[*x.]+|\[redacted.*|(?:example|changeme|placeholder|your[_-]).*|none|null|true|false"
)

_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|_)(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|auth|cookie|dsn|private|apikey|pat)(?:_|$)"
    r"|(?:api|access|secret|private|signing|encryption|account|ssh)_?key|_key$"
)
_SECRET_FILE: Final = re.compile(
    r"(?i)(?:.*/)?(?:\.env(?:\.(?!example$|sample$|template$|dist$)[\w.-]+)?|\.envrc|\.netrc|_netrc|\.pypirc|\.npmrc|\.pgpass"
    r"|\.htpasswd|\.git-credentials|id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|credentials(?:\.json)?|client_secret.*\.json|service[_-]?account.*\.json|secrets?\.(?:ya?ml|json|toml|ini|env))"
)


def find_secrets(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each secret in a text as (kind, start, end). One place may be found as more than one kind."""
    for kind, pattern in _COMPILED:
        for found in pattern.finditer(text):
            group = next((name for name in _GROUPS if name in pattern.groupindex and found[name]), 0)
            if not _HARMLESS.fullmatch(found[group]):
                yield kind, *found.span(group)


def redact(text: str) -> str:
    """Return the text with each secret replaced by `[redacted:KIND]`."""
    # In the order of the table: a token that has a form of its own keeps its name behind `TOKEN=`.
    order = {kind: place for place, kind in enumerate(KINDS)}
    spans = sorted(find_secrets(text), key=lambda each: (each[1], order[each[0]], -each[2]))
    if not spans:
        return text
    pieces: list[str] = []
    done = 0
    for kind, start, end in spans:
        if start >= done:
            pieces += [text[done:start], f"[redacted:{kind}]"]
        # Overlapping secrets become one: no tail of the longer one stays.
        done = max(done, end)
    return "".join([*pieces, text[done:]])


def is_secret_name(name: str) -> bool:
    """Say whether a variable of this name holds a secret, whatever its value looks like."""
    return _SECRET_NAME.search(name) is not None


def is_secret_file(path: str) -> bool:
    """Say whether a file of this name holds secrets by custom: `.env`, `id_rsa`, `server.pem` and so on."""
    return _SECRET_FILE.fullmatch(path) is not None
