"""Settings: where each comes from, and what is refused, by name, value and what is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from crdtsyncd.config.host_port import is_loopback, split_address
from crdtsyncd.config.model import Config, load_config

from crdtsync.errors import ConfigError
from crdtsync.wire.invites import INVITE_ID_BYTES, SECRET_BYTES, Invite, encode_invite


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("CRDTSYNC_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


INVITE = encode_invite(Invite(b"c" * 16, b"p" * 32, b"i" * INVITE_ID_BYTES, b"s" * SECRET_BYTES, 1, ("h:1",)))

BAD_FILES = {
    "unknown key": ("colour = 'red'", ["colour", "node_name"]),
    "unknown table": ("[peers.one]\nurl = 'ws://127.0.0.1'", ["peers"]),
    "misspelt": ("node-name = 'a'", ["node-name", "node_name"]),
    "not TOML": ("node_name = ", ["not valid TOML"]),
    "not UTF-8": ("node_name = '\udcff'", ["not valid TOML"]),
    "name": ("node_name = 'Has Spaces'", ["node_name", "Has Spaces", "a-z"]),
    "name a number": ("node_name = 5", ["node_name", "5"]),
    "listen a number": ("listen = 7420", ["listen", "7420"]),
    "listen of numbers": ("listen = [7420]\ninsecure_loopback = true", ["listen", "7420"]),
    "listen a path": ("listen = ['/run/sock']\ninsecure_loopback = true", ["listen", "HOST:PORT"]),
    "listen on no port": ("listen = ['127.0.0.1:port']\ninsecure_loopback = true", ["listen", "HOST:PORT"]),
    "listen on port 70,000": ("listen = ['127.0.0.1:70000']\ninsecure_loopback = true", ["listen", "70000"]),
    "listen on the network": ("listen = ['0.0.0.0:7420']\ninsecure_loopback = true", ["0.0.0.0", "loopback"]),
    "listen by a name": ("listen = ['example.org:7420']\ninsecure_loopback = true", ["example.org", "loopback"]),
    "peers in plain": ("peers = ['ws://127.0.0.1:7420']", ["insecure_loopback"]),
    "joining in plain text": (f"join = '{INVITE}'\ninsecure_loopback = true", ["--insecure-loopback", "cluster"]),
    "no invite": ("join = 'let me in'", ["join", "crdtsync cluster invite"]),
    "peer elsewhere": ("peers = ['ws://192.0.2.1:7420']\ninsecure_loopback = true", ["192.0.2.1", "loopback"]),
    "peer by another scheme": ("peers = ['http://127.0.0.1']\ninsecure_loopback = true", ["peers", "ws://"]),
    "peer without a scheme": ("peers = ['127.0.0.1:7420']\ninsecure_loopback = true", ["peers", "ws://"]),
    "peer on port 70,000": ("peers = ['ws://127.0.0.1:70000']\ninsecure_loopback = true", ["peers", "70000"]),
    "peer on a bad address": ("peers = ['ws://[::1']\ninsecure_loopback = true", ["peers"]),
    "advertise": ("advertise = ['']", ["advertise", "HOST:PORT"]),
    "truth": ("insecure_loopback = 'perhaps'", ["insecure_loopback", "perhaps"]),
    "level": ("log_level = 'loud'", ["log_level", "loud", "debug"]),
    "format": ("log_format = 'xml'", ["log_format", "xml", "json"]),
    "mode": ("socket_mode = '0999'", ["socket_mode", "0999"]),
    "mode a number": ("socket_mode = 432", ["socket_mode", "432"]),
    "negative": ("ballast_bytes = -1", ["ballast_bytes", "-1"]),
    "fraction": ("free_bytes_min = 1.5", ["free_bytes_min", "1.5"]),
    "no agents": ("agents_max = 0", ["agents_max", "0"]),
    "too many peers": ("peers_max = 1000000000", ["peers_max", "1000000000"]),
    "socket too long": (f"socket = '/tmp/{'x' * 110}'", ["socket", "107"]),
    "data_dir a list": ("data_dir = ['a']", ["data_dir"]),
    "data_dir no path": ('data_dir = "\\u0000"', ["data_dir", "path"]),
    "digits without end": (f"agents_max = {'9' * 5000}", ["not valid TOML"]),
    "digits without end in text": (f"agents_max = '{'9' * 5000}'", ["agents_max", "integer"]),
    "lists without end": (f"listen = {'[' * 5000}", ["not valid TOML"]),
    "age without end": (f"log_age_max = '{'9' * 5000}d'", ["log_age_max", "duration"]),
    "age too short": ("log_age_max = '59s'", ["log_age_max", "from 1m to 36500d"]),
    "metrics for all": ("metrics_listen = '0.0.0.0:1'", ["metrics_listen", "loopback"]),
    "metrics without a port": ("metrics_listen = '127.0.0.1'", ["metrics_listen", "port"]),
    "two faults": ("agents_max = 0\nlog_level = 'loud'", ["agents_max", "log_level"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_fault_is_told_by_name_value_and_what_is_allowed(tmp_path: Path, case: str) -> None:
    text, parts = BAD_FILES[case]
    file = tmp_path / "crdtsyncd.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError) as refusal:
        load_config(file, {})
    message = refusal.value.message
    assert "\n" not in message
    assert "<class" not in message
    for part in (str(file), *parts):
        assert part in message


def test_options_override_the_environment_which_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "crdtsyncd.toml"
    file.write_text("node_name = 'file'\nagents_max = 1\npeers_max = 1")
    monkeypatch.setenv("CRDTSYNC_NODE_NAME", "environment")
    monkeypatch.setenv("CRDTSYNC_AGENTS_MAX", "2")
    config = load_config(file, {"node_name": "option"})
    assert (config.node_name, config.agents_max, config.peers_max, config.log_level) == ("option", 2, 1, "info")


def test_a_bad_value_that_is_overridden_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "crdtsyncd.toml"
    file.write_text("node_name = 'NOT A NAME'")
    assert load_config(file, {"node_name": "good"}).node_name == "good"
    monkeypatch.setenv("CRDTSYNC_NODE_NAME", "environment")
    assert load_config(file, {}).node_name == "environment"


@pytest.mark.parametrize("name,value", [("AGENTS_MAX", "many"), ("PEERS", "ftp://x"), ("LOG_LEVEL", "loud")])
def test_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"CRDTSYNC_{name}", value)
    with pytest.raises(ConfigError, match=value):
        load_config(None, {})


def test_lists_in_the_environment_are_separated_by_commas_or_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSYNC_LISTEN", "127.0.0.1:1, [::1]:2 localhost")
    monkeypatch.setenv("CRDTSYNC_INSECURE_LOOPBACK", "1")
    assert load_config(None, {}).listen == ["127.0.0.1:1", "[::1]:2", "localhost"]


def test_the_clients_environment_is_no_setting_of_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSYNC_SPACE", "default")
    monkeypatch.setenv("CRDTSYNC_AGENT_KEY", "x")
    load_config(None, {})


def test_a_user_s_file_is_found_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "config" / "crdtsync"
    place.mkdir(parents=True)
    (place / "crdtsyncd.toml").write_text("node_name = 'found'")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert load_config(None, {}).node_name == "found"


@pytest.mark.parametrize("kind", ["absent", "directory"])
def test_a_file_that_cannot_be_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "absent" if kind == "absent" else tmp_path
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        load_config(path, {})


def test_the_longest_socket_path_is_taken() -> None:
    longest = Path("/" + "x" * 106)
    assert Config(socket=longest).socket == longest
    with pytest.raises(ConfigError, match="107"):
        load_config(None, {"socket": Path("/" + "é" * 54)})


@pytest.mark.parametrize(
    "address,parts",
    [
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("localhost", ("localhost", 7420)),
        ("[::1]:5", ("::1", 5)),
        ("[::1]", ("::1", 7420)),
    ],
)
def test_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "127.0.0.1.x", ""]
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)
