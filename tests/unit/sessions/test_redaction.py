"""Secrets of many kinds in lines as agents write them: found, marked the same each time; other lines stay."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from crdtsync.errors import InvalidRequest, Refused
from crdtsync.sessions.agents.claude_code import slug
from crdtsync.sessions.fleet import _freed
from crdtsync.sessions.redaction import own
from crdtsync.sessions.redaction.own import OwnPatterns, own_patterns
from crdtsync.sessions.redaction.redactor import Redactor

WORD, HEX, UPPER = string.ascii_letters + string.digits, "0123456789abcdef", string.ascii_uppercase + "234567"


def chars(rng: random.Random, count: int, of: str = WORD) -> str:
    return "".join(rng.choices(of, k=count))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "anthropic": lambda r: f"sk-ant-api03-{chars(r, 95)}",
    "openai": lambda r: f"sk-proj-{chars(r, 64)}",
    "openai-old": lambda r: f"sk-{chars(r, 48)}",
    "openrouter": lambda r: f"sk-or-v1-{chars(r, 64, HEX)}",
    "github": lambda r: f"ghp_{chars(r, 36)}",
    "github-app": lambda r: f"ghs_{chars(r, 36)}",
    "github-fine": lambda r: f"github_pat_{chars(r, 22)}_{chars(r, 59)}",
    "gitlab": lambda r: f"glpat-{chars(r, 20)}",
    "aws": lambda r: f"AKIA{chars(r, 16, UPPER)}",
    "google": lambda r: f"AIza{chars(r, 35)}",
    "google-oauth": lambda r: f"ya29.{chars(r, 60)}",
    "slack": lambda r: f"xoxb-{chars(r, 12, '123456789')}-{chars(r, 24)}",
    "slack-hook": lambda r: f"https://hooks.slack.com/services/T{chars(r, 8)}/B{chars(r, 8)}/{chars(r, 24)}",
    "stripe": lambda r: f"sk_live_{chars(r, 24)}",
    "twilio": lambda r: f"SK{chars(r, 32, HEX)}",
    "sendgrid": lambda r: f"SG.{chars(r, 22)}.{chars(r, 43)}",
    "mailgun": lambda r: f"key-{chars(r, 32, HEX)}",
    "npm": lambda r: f"npm_{chars(r, 36)}",
    "pypi": lambda r: f"pypi-AgEIcHlwaS5vcmc{chars(r, 80)}",
    "huggingface": lambda r: f"hf_{chars(r, 34)}",
    "groq": lambda r: f"gsk_{chars(r, 52)}",
    "replicate": lambda r: f"r8_{chars(r, 37)}",
    "digitalocean": lambda r: f"dop_v1_{chars(r, 64, HEX)}",
    "telegram": lambda r: f"{chars(r, 9, '123456789')}:AA{chars(r, 33)}",
    "shopify": lambda r: f"shpat_{chars(r, 32, HEX)}",
    "azure": lambda r: f"AccountName=a;AccountKey={chars(r, 86)}==",
    "jwt": lambda r: f"eyJ{chars(r, 30)}.eyJ{chars(r, 60)}.{chars(r, 43)}",
    "vault": lambda r: f"hvs.{chars(r, 30)}",
    "databricks": lambda r: f"dapi{chars(r, 32, HEX)}",
    "docker": lambda r: f"dckr_pat_{chars(r, 27)}",
    "linear": lambda r: f"lin_api_{chars(r, 40)}",
    "notion": lambda r: f"ntn_{chars(r, 46)}",
    "new-relic": lambda r: f"NRAK-{chars(r, 27, UPPER)}",
    "grafana": lambda r: f"glsa_{chars(r, 32)}_{chars(r, 8, HEX)}",
    "age": lambda r: f"AGE-SECRET-KEY-1{chars(r, 58, UPPER)}",
    "bearer": lambda r: f"Authorization: Bearer {chars(r, 40)}",
    "url": lambda r: f"postgres://app:{chars(r, 16)}@db.internal:5432/app",
    "pem": lambda r: f"-----BEGIN RSA PRIVATE KEY-----\n{chars(r, 64)}\n{chars(r, 64)}\n-----END RSA PRIVATE KEY-----",
    "password": lambda r: f"DB_PASSWORD={chars(r, 14)}{r.randrange(10)}",
    "yaml": lambda r: f'apiKey: "{chars(r, 24)}{r.randrange(10)}x"',
    "redis": lambda r: f"redis://:{chars(r, 20)}@cache:6379/0",
    "postgres": lambda r: f"export PGPASSWORD='{chars(r, 17)}{r.randrange(10)}'",
    "kubeconfig": lambda r: f"client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBL{chars(r, 200)}",
    "quoted": lambda r: f'PASSWORD="p$9!{chars(r, 12)}&u"',
    "xml": lambda r: f"<password>{chars(r, 15)}{r.randrange(10)}</password>",
    "state": lambda r: '"db_password": {\n  "value": "' + chars(r, 15) + '7"\n}',
    "curl": lambda r: f"curl -s -u admin:{chars(r, 14)} https://api.internal/v1",
    "mysql": lambda r: f"mysql -uroot -p{chars(r, 16)} app",
    "cookie": lambda r: f"Set-Cookie: sessionid={chars(r, 32)}; Path=/",
    "shadow": lambda r: f"root:$6${chars(r, 16)}${chars(r, 86)}:19000:0:99999:7:::",
    "mailchimp": lambda r: f"{chars(r, 32, HEX)}-us12",
    "git-address": lambda r: f"origin https://{chars(r, 39, HEX)}7@github.com/acme/api.git (fetch)",
    "crdtsync": lambda r: f"ak1.{chars(r, 43)}.critic",
    "flag": lambda r: f"deploy --token {chars(r, 20)}{r.randrange(10)}x",
}
FRAMES: list[Callable[[str], bytes]] = [
    lambda text: json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n",
    lambda text: json.dumps({"payload": {"output": f"$ env\nHOME=/root\n{text}\nPATH=/bin\n"}}).encode() + b"\n",
    lambda text: json.dumps({"arguments": json.dumps({"cmd": f"echo '{text}' > .env"})}).encode() + b"\n",
]
CLEAN = [
    '{"input_tokens": 12345678, "cache_read_input_tokens": 99887766, "token_count": "1234567890"}',
    '{"uuid":"6f1d2c58-0a5e-4c0f-9f3b-2d1d1df49fcd","promptId":"2d1d1df4-9fcd-4b25-b67c-b39d870d48b5"}',
    '{"shapeHash":"29d663266e79096603d35aa3062fc13b83ca391e7bd0cdd820772def667a2f4d","id":"msg_01XyZ93kdLs02"}',
    '{"text":"token = os.environ[\'API_TOKEN\']; password: required; the secret is out"}',
    '{"text":"def authenticate(password: str, token: Token) -> None: self.token = token"}',
    '{"signature":"EqQBCkgIAhABGAIiQJ7b4zUe0Xw2Qm9kz5TqWc1y","type":"thinking"}',
    '{"text":"commit 0f4cc37625f1409ea345 by author ann12345 <ann@example.com>"}',
    '{"cwd":"/home/ann/api","version":"2.1.330","sessionId":"f6c34a6a-808b-4ff8-9113-b708d2180d69"}',
    '{"text":"see https://example.com/a/b?c=d#e and key: value, tokenizer: cl100k_base, author: x"}',
    '{"text":"password=\\"${DB_PASSWORD}\\" pass: 12 tests; if token > 12345678: docker run -u 1000:1000 x86_64"}',
    '{"text":"token = AuthTokenProviderFactory2.createForTenant; see cache-key-of-the-whole-build, npm-of-ours"}',
    '{"text":"arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/MySecret-a1b2c3"}',
    '{"text":"risk-assessment, task-0001, key-value store, disk-usage-of-the-whole-machine-in-the-morning"}',
]


def test_of_500_planted_secrets_nearly_all_are_found_and_clean_lines_stay():
    rng = random.Random(7)
    missed, planted = [], 0
    for kind, make in KINDS.items():
        for _ in range(12):
            secret = make(rng)
            line = rng.choice(FRAMES)(secret)
            planted += 1
            cleaned = Redactor().line(line)
            core = max(re.findall(r"[\w+/-]+", secret), key=len)
            if b"[redacted:" not in cleaned or core.encode() in cleaned:
                missed.append((kind, cleaned))
            json.loads(cleaned)
    assert len(KINDS) >= 40
    assert planted >= 500
    assert len(missed) <= planted / 100, missed
    assert [line for line in CLEAN if Redactor().line(line.encode()) != line.encode()] == []


def test_of_lines_without_secrets_nearly_none_are_touched():
    """The sources and pages of this project, which speak of keys and tokens a lot, as an agent reads them."""
    root = Path(__file__).parents[3]
    texts = [
        path.read_text() for folder in ("crdtsync", "docs") for path in sorted((root / folder).rglob("*.[pm][yd]"))
    ]
    every = [text for whole in texts for text in whole.splitlines() if text.strip()]
    lines = [json.dumps({"output": text}).encode() for text in every[::4]]
    touched = [line for line in lines if Redactor().line(line) != line]
    assert len(lines) > 5000
    assert len(touched) <= len(lines) / 100, touched[:20]


@pytest.mark.parametrize("letters", [WORD + "+/", WORD + "-_"], ids=["base64", "base64url"])
def test_pictures_and_sealed_thoughts_stay_whatever_letters_stand_in_them(letters: str):
    """A few megabytes of chance hold every short beginning of a token; a picture with a mark in it is none."""
    rng = random.Random(7)
    for start in ("AIza", "ghp_", "gho_", "npm_", "ntn_", "glc_", "AKIA", "hf_", "eyJ", "xoxb-", "dapi", "sk-", "r8_"):
        if set(start) <= set(letters):
            data = chars(rng, 50) + start + chars(rng, 60) + chars(rng, 400, letters)
            line = f'{{"data": "{data}"}}'.encode()
            assert Redactor().line(line) == line


@pytest.mark.parametrize("before", ["", "=", "\\n", "\\u001b[32m", "token%3D", "'"])
def test_a_token_is_found_whatever_stands_before_it(before: str):
    for kind in ("google", "github", "npm", "notion", "grafana", "slack"):
        secret = KINDS[kind](random.Random(7))
        assert secret.encode() not in Redactor().line(f'{{"output": "{before}{secret}"}}'.encode())


@pytest.mark.parametrize(
    "kind", ["github", "github-fine", "stripe", "npm", "slack", "digitalocean", "shopify", "docker"]
)
def test_a_token_in_the_name_of_a_directory_is_found_also_where_claude_code_writes_that(kind: str):
    secret = KINDS[kind](random.Random(7))
    for place in (f"/srv/api-{secret}/a.py", f"/srv/my_old_{secret}", f"projects/{slug(f'/srv/api-{secret}')}/memory"):
        cleaned = Redactor().line(json.dumps({"cwd": place}).encode())
        assert b"[redacted:" in cleaned
        assert secret[-16:].encode() not in cleaned


@pytest.mark.parametrize("beginning", [b"eyJ", b"-eyJ", b"-sk-", b"_ghp_", b"-dp."])
def test_a_long_line_of_beginnings_is_read_once(beginning: bytes):
    """Two megabytes: where each beginning has the rest of the line looked through, that takes half an hour."""
    line = b'{"output": "' + beginning * (2_100_000 // len(beginning)) + b'"}'
    assert Redactor().line(line) == line


def test_the_same_secret_has_the_same_mark_and_a_file_with_marks_goes_on_with_the_next():
    one, two, three = (f"ghp_{chars(random.Random(n), 36)}".encode() for n in range(3))
    whole = list(Redactor().lines([one + b"\n", two + b"\n", one + b"\n", three + b"\n"]))
    marks = [b"[redacted:github-token:%d]\n" % number for number in (1, 2, 1, 3)]
    assert whole == marks
    assert list(Redactor().lines([*marks[:3], three + b"\n"])) == marks


def test_a_private_key_over_several_lines_of_a_text_file_is_gone():
    key = [b"-----BEGIN PRIVATE KEY-----\n", b"MIIEvQIBADANBgkq\n", b"hkiG9w0BAQEF\n", b"-----END PRIVATE KEY-----\n"]
    cleaned = list(Redactor().lines([b"before\n", *key, b"after\n"]))
    assert (cleaned[0], cleaned[-1], len(cleaned)) == (b"before\n", b"after\n", 6)
    assert b"MIIE" not in b"".join(cleaned)
    assert b"hkiG" not in b"".join(cleaned)
    assert list(Redactor().lines([key[0], b'{"a": 1}\n', b"words here!\n"]))[1:] == [b'{"a": 1}\n', b"words here!\n"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_private_key_within_a_text_is_gone(end: str):
    key = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEvQIBADANBgkq", "hkiG9w0BAQEF", "-----END RSA PRIVATE KEY-----"]
    redactor = Redactor()
    assert "MIIE" not in redactor.text(end.join(key[:2])), "it is cut off"
    cleaned = redactor.text(end.join(["it is", *key, "so password:", "  hunter2Xy!9"]))
    assert cleaned.startswith(f"it is{end}[redacted:private-key:")
    assert cleaned.endswith(f"so password:{end}  [redacted:secret:1]")
    assert not any(word in cleaned for word in ("MIIE", "hkiG", "-----END"))
    assert redactor.text("MIIEvQIBADANBgkq") == "MIIEvQIBADANBgkq", "a text by itself"


def test_patterns_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert len(own_patterns()) == 0
    file = tmp_path / "crdtsync" / "secrets.txt"
    file.parent.mkdir()
    file.write_text("# customers\nACME-\\d{6}\n\n")
    assert Redactor(own_patterns()).line(b"order of ACME-123456") == b"order of [redacted:own:1]"
    file.write_text("nowhere\nof (\\w+)\n\\d{6}")
    redactor = Redactor(own_patterns())
    assert redactor.line(b"of ACME 123456 of acme") == b"of [redacted:own:1] [redacted:own:3] of [redacted:own:2]"
    assert redactor.twin().line(b"123456\n") == b"[redacted:own:3]\n"
    file.write_text("(")
    with pytest.raises(InvalidRequest, match="line 1"):
        own_patterns()


def test_a_pattern_that_takes_too_long_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(own, "LINE_S", 1)
    file = tmp_path / "crdtsync" / "secrets.txt"
    file.parent.mkdir()
    file.write_text("b\n(a+)+$\n")
    redactor = Redactor(own_patterns())
    with pytest.raises(InvalidRequest, match=re.escape("'(a+)+$' in") + ".*more than 1 s for one line"):
        redactor.line(b"a" * 40 + b"!\n")
    assert redactor.line(b"a!b\n") == b"a![redacted:own:1]\n"


def test_any_bytes_pass_through_a_redactor():
    rng = random.Random(3)
    for _ in range(3000):
        line = bytes(rng.choices(b'abc "\\:={}[]token key=sk-ghp_eyJ.\xff\x00\n', k=rng.randrange(80)))
        Redactor().line(line)


def test_own_patterns_show_in_no_list_of_processes_and_outlive_their_worker():
    patterns = OwnPatterns(["hunter[0-9]+"])
    assert patterns.found(b"pass hunter2", 0) == (0, [(5, 12)])
    worker = patterns._worker
    assert worker is not None
    assert b"hunter" not in Path(f"/proc/{worker.pid}/cmdline").read_bytes()
    worker.kill()
    worker.wait()
    with pytest.raises(Refused, match="nothing was saved"):
        patterns.found(b"pass hunter3", 0)
    assert patterns.found(b"pass hunter3", 0) == (0, [(5, 12)])


def test_what_is_told_to_another_host_is_freed_string_by_string(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "crdtsync").mkdir()
    (tmp_path / "crdtsync" / "secrets.txt").write_text("/srv/münchen.*\n")
    told = {"in": "/srv/münchen/a", "turns": 3, "map": [["/home/a", "/srv/münchen"]]}
    freed = _freed(told)
    assert "münchen" not in repr(freed)
    assert (freed["turns"], freed["map"][0][0]) == (3, "/home/a")
