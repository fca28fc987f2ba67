"""Known forms of secrets, as providers document them.

They are looked for in the raw bytes of a line, where a line break within a string is a backslash and a letter:
``"a\\nghp_…"``. So a form with a long telling beginning asks for nothing before it, and the others for an edge: a
picture of 2 MB holds any four letters by chance, and with a mark in it nobody can show it. ``hint`` is what a line must
contain to be looked at more closely, and patterns begin with plain characters, look-behinds after them: both make a
search quick, so that 70 forms cost little.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretForm:
    """One form of secret; group 1 of ``pattern`` is the secret, if there is one, else all of the match. ``hint`` has
    dashes where underscores may be. ``in_name``: only where :data:`NAME` is before it.
    """

    kind: str
    hint: bytes
    pattern: re.Pattern[bytes]
    in_name: bool = False


NAME = re.compile(rb"(?:\A|[^A-Za-z0-9_-])[A-Za-z0-9_-]{0,99}\Z")
"""The part before a secret, at the end of a name; in a picture there is more."""
_END = rb"(?![A-Za-z0-9])"


def _form(kind: str, hint: str, pattern: bytes, *, in_name: bool = False) -> SecretForm:
    return SecretForm(kind, hint.encode().replace(b"_", b"-"), re.compile(pattern, re.DOTALL), in_name)


def _plain(beginning: bytes) -> bytes:
    """``beginning``, also as Claude Code writes a directory: ``/srv/ghp_…`` as ``-srv-ghp-…``."""
    return re.escape(beginning).replace(b"_", b"[_-]")


def _edge(beginning: bytes, *more: bytes) -> bytes:
    """``beginning`` where nothing that belongs to it stands before, but for an escape: of JSON, of an address, of a
    terminal's colour. ``more`` are other things that may.
    """
    plain = _plain(beginning)
    behind = (rb"(?<![A-Za-z0-9_-]", rb"(?<=\\[nrtbf]", rb"(?<=%[0-9A-Fa-f]{2}", rb"(?<=[\[;]\dm", rb"(?<=[\[;]\d\dm")
    return plain + b"(?:" + b"|".join(one + plain + b")" for one in (*behind, *more)) + b")"


def _short(kind: str, beginnings: tuple[bytes, ...], rest: bytes) -> list[SecretForm]:
    """Also at the end of a name, such as ``api-ghp_…``."""
    return [_form(kind, one.decode(), _edge(one, b"(?<=[_-]") + rest, in_name=True) for one in beginnings]


def _long(kind: str, beginning: bytes, rest: bytes) -> SecretForm:
    return _form(kind, beginning.decode(), _plain(beginning) + rest)


FORMS = (
    _form("private-key", "PRIVATE KEY",
          rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
          rb"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?=[\"'\n]|\Z))"),
    _form("private-key", "LS0tLS1CRUdJTi",  # the same in base64
          rb"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURS|BQUklWQVRF|BFQyBQUklWQVRF|BPUEVOU1NIIFBSSVZBVE|BFTkNSWVBURUQgUFJJVkFUR)"
          rb"[A-Za-z0-9+/=]*"),
    _form("age-key", "AGE-SECRET-KEY-", rb"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    _form("anthropic-key", "sk-ant-", rb"sk-ant-[A-Za-z0-9_-]{20,}"),
    _form("openrouter-key", "sk-or-", rb"sk-or-v1-[0-9a-f]{32,}"),
    *_short("openai-key", (b"sk-",), rb"(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"),
    *_short("openai-key", (b"sk-",), rb"(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{32,}" + _END),
    *_short("github-token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"[A-Za-z0-9]{36,}"),
    _long("github-token", b"github_pat_", rb"[A-Za-z0-9_-]{22,}"),
    *_short("gitlab-token", (b"glpat-", b"glrt-", b"gldt-", b"glsoat-", b"glcbt-", b"glptt-", b"glft-", b"glimt-",
                             b"glagent-"), rb"[A-Za-z0-9_-]{20,}"),
    *_short("aws-access-key", (b"AKIA", b"ASIA", b"ABIA", b"ACCA"), rb"[A-Z2-7]{16}" + _END),
    *_short("google-api-key", (b"AIza",), rb"[A-Za-z0-9_-]{35}" + _END),
    _form("google-oauth", "ya29.", rb"ya29\.[A-Za-z0-9_-]{20,}"),
    _form("google-client-secret", "GOCSPX-", rb"GOCSPX-[A-Za-z0-9_-]{20,}"),
    *_short("slack-token", tuple(b"xox%c-" % letter for letter in b"abeoprs"), rb"[A-Za-z0-9-]{10,}"),
    _form("slack-token", "xapp-", rb"xapp-\d-[A-Za-z0-9-]{10,}"),
    _form("slack-webhook", "hooks.slack.com", rb"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,})"),
    _form("stripe-key", "k_", rb"[sr]k[_-](?:live|test)[_-][A-Za-z0-9]{16,}"),
    _form("webhook-secret", "whsec_", rb"whsec_[A-Za-z0-9+/=]{24,}"),
    *_short("twilio-key", (b"SK",), rb"[0-9a-f]{32}" + _END),
    _form("sendgrid-key", "SG.", rb"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    *_short("mailgun-key", (b"key-",), rb"[0-9a-f]{32}" + _END),
    *_short("npm-token", (b"npm_",), rb"[A-Za-z0-9]{36}"),
    _form("pypi-token", "pypi-", rb"pypi-[A-Za-z0-9_-]{50,}"),
    _long("rubygems-key", b"rubygems_", rb"[0-9a-f]{48}"),
    *_short("huggingface-token", (b"hf_",), rb"[A-Za-z0-9]{30,}"),
    *_short("groq-key", (b"gsk_",), rb"[A-Za-z0-9]{40,}"),
    *_short("xai-key", (b"xai-",), rb"[A-Za-z0-9]{60,}"),
    *_short("replicate-token", (b"r8_",), rb"[A-Za-z0-9]{30,}"),
    _form("perplexity-key", "pplx-", rb"pplx-[A-Za-z0-9]{40,}"),
    _form("digitalocean-token", "_v1_", rb"do[opr][_-]v1[_-][0-9a-f]{64}"),
    _form("discord-webhook", "/webhooks/", rb"discord(?:app)?\.com/api/webhooks/(\d+/[A-Za-z0-9_-]{40,})"),
    _form("discord-token", ".", rb"\.(?<=[MNO][A-Za-z0-9_-]{23}\.)[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    _form("telegram-token", ":AA", rb":AA(?<=[0-9]{8}:AA)[A-Za-z0-9_-]{33}" + _END),
    _form("shopify-token", "shp", rb"shp(?:at|ca|pa|ss)[_-][0-9a-fA-F]{32}"),
    _form("square-token", "sq0", rb"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}"),
    _form("azure-key", "AccountKey=", rb"AccountKey=([A-Za-z0-9+/]{40,}=*)"),
    _form("azure-signature", "sig=", rb"[?&]sig=([A-Za-z0-9%+/]{40,}=*)"),
    _form("jwt", "eyJ", _edge(b"eyJ") + rb"[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    _form("vault-token", "hv", rb"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _form("databricks-token", "dapi", rb"dapi[0-9a-f]{32}"),
    _form("docker-token", "dckr", rb"dckr[_-][po]at[_-][A-Za-z0-9_-]{20,}"),
    _long("linear-key", b"lin_api_", rb"[A-Za-z0-9]{32,}"),
    *_short("notion-token", (b"ntn_",), rb"[A-Za-z0-9]{40,}"),
    *_short("notion-token", (b"secret_",), rb"[A-Za-z0-9]{43}" + _END),
    *_short("figma-token", (b"figd_",), rb"[A-Za-z0-9_-]{30,}"),
    _form("postman-key", "PMAK-", rb"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _form("new-relic-key", "NRAK-", rb"NRAK-[A-Z0-9]{27}"),
    _form("sentry-token", "sntr", rb"sntr[ysu][_-][A-Za-z0-9+/=_-]{40,}"),
    *_short("grafana-token", (b"glsa_", b"glc_"), rb"[A-Za-z0-9+/=_]{32,}"),
    _form("terraform-token", ".atlasv1.", rb"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"),
    *_short("airtable-token", (b"pat",), rb"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    *_short("doppler-token", (b"dp.",), rb"(?:pt|st|ct|sa)\.[A-Za-z0-9_.-]{40,}"),
    *_short("pulumi-token", (b"pul-",), rb"[0-9a-f]{40}" + _END),
    *_short("crdtsync-agent-key", (b"ak1.",), rb"([A-Za-z0-9_-]{43})\."),
    _form("crdtsync-invite", "crdtsync1.", rb"crdtsync1\.([A-Za-z0-9_-]{40,})"),
    _form("authorization", "earer", rb"[Bb]earer(?:\s|\+|%20)+([A-Za-z0-9._~+/-]{16,}=*)"),
    _form("authorization", "asic", rb"[Aa]uthorization\\*[\"']?\s*[:=]\s*\\*[\"']?[Bb]asic\s+([A-Za-z0-9+/]{8,}=*)"),
    _form("url-token", "://", rb"://((?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,200})@"),
    _form("url-password", "://", rb"://[^\s/:@\"'\\]{0,80}:([^\s/@\"'\\$<>{}\[\]]{3,200})@[A-Za-z0-9.\[-]"),
    _form("command-password", "curl",
          rb"curl(?=\s)[^\n|;]{0,300}?\s(?:-u|--user)[ =]+\\*[\"']?[\w.@-]{1,80}:([^\s\"'\\$]{6,200})"),
    _form("command-password", "sshpass", rb"sshpass\s+-p\s*\\*[\"']?([^\s\"'\\$]{4,200})"),
    _form("command-password", "mysql", rb"mysql\w{0,9}\s[^\n|;\"]{0,200}?\s-p([^\s\"'\\$]{6,200})"),
    _form("sql-password", "DENTIFIED BY", rb"DENTIFIED BY\s+\\*[\"']([^\s\"'\\]{6,200})"),
    _form("cookie", "ookie",
          rb"ookie\\*[\"']?:[^\n]{0,200}?(?:sess|sid|auth|remember)[\w.-]{0,20}=([A-Za-z0-9%._~+/-]{16,}=*)"),
    _form("password-hash", "$", rb"\$(?:[156y]|2[aby]|argon2id?)\$[A-Za-z0-9./$=,+-]{20,}"),
    _form("mailchimp-key", "-us", rb"[0-9a-f]{32}-us\d{1,2}" + _END),
)  # fmt: skip

STEMS: dict[bytes, re.Pattern[bytes] | None] = {
    b"pass": None,
    b"pwd": None,
    b"secret": None,
    b"credential": None,
    b"token": None,
    b"key": re.compile(rb"(?:api|access|auth|private|secret|signing|encryption|account)[_-]?\Z"),
    b"auth": None,
}
"""Telling words, in small letters, each with what must stand before it."""
VALUE = re.compile(
    rb"(?:pass(?:words?|wd|wort|phrase)?|pwd|secrets?|credentials?|token|key|auth)"
    rb"(?:[_-]?(?:id|value|key|token|base64|b64|prod|production|staging|dev|test|old|new|\d{1,4}))?"
    rb"(?:\\*[\"'])?(?:\s{0,4}(?:=>|:=|=|:)\s{0,4}|>|\s+(?:is|was)\s+|\s+(?=\S*\d))"
    rb"(?:\{(?:\\+n|\s){0,9}\\*[\"']value\\*[\"']:\s?)?"
    rb"(?:\\*[\"'](?P<quoted>[^\s\"'\\]{8,512})(?=\\*[\"'])"
    rb"|(?:\\*[\"'])?(?P<value>[^\s\"'\\,;<>(){}\[\]$|`]{8,512}))",
    re.IGNORECASE,
)
"""A telling word, a sign that its value follows, and the value, which must look like chance besides."""
