"""Settings of clients: our server goes in and out again, and no other byte changes."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.errors import InvalidRequest
from crdtsync.mcp.install.change import has_server, in_its_lines, read, with_server, without_server, write
from crdtsync.mcp.install.clients import CLIENTS, client
from crdtsync.mcp.install.hooks import EVENTS, has_hooks, with_hooks, without_hooks

JSON, TOML = Path("settings.json"), Path("config.toml")
ENTRY = {"command": "/opt/crdtsync", "args": ["mcp", "serve"]}

WITH_COMMENTS = """{
    // servers of the team
    "mcpServers": {
        "other": {"command": "y", "args": [1, /* two */ 2]} // keep
    },
    "theme": "dark"
}
"""

TOML_TEXT = """# mine
model = "gpt-5"

[mcp_servers.other]
command = "x" # keep

[tui]
theme = "dark"
"""


def test_an_agent_that_was_given_no_name_is_called_after_its_directory_without_a_secret_in_that():
    codex = client("codex")
    assert codex.agent_name("/srv/My API") == "codex-mcp-client-my-api"
    assert codex.agent_name("/srv/api-ghp_" + "a1B2c3D4e5F6" * 3) == "codex-mcp-client-api--redacted-github-token-1"


def test_json_keeps_its_comments_its_order_and_its_indentation():
    changed = with_server(WITH_COMMENTS, JSON, "mcpServers", ENTRY)
    assert '"args": [1, /* two */ 2]}, // keep\n        "crdtsync": {\n            "command"' in changed
    assert without_server(changed, JSON, "mcpServers") == WITH_COMMENTS


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{\n}\n",
        '{"a": 1}',
        '{"mcpServers": {}}',
        '{\n\t"a": {\n\t\t"b": []\n\t}\n}',
        '{"mcpServers": {"x": {}}, "z": "}"}',
        '{\n  "mcpServers": {\n    "x": {},\n  },\n}\n',
    ],
)
def test_what_comes_out_is_json_with_the_server_in_it(text: str):
    changed = with_server(text, JSON, "mcpServers", ENTRY)
    strict = changed.replace(",\n  }", "\n  }").replace(",\n}", "\n}")  # what editors allow beyond JSON
    assert json.loads(strict)["mcpServers"]["crdtsync"] == ENTRY
    assert has_server(changed, JSON, "mcpServers")
    assert with_server(changed, JSON, "mcpServers", ENTRY) == changed
    assert not has_server(without_server(changed, JSON, "mcpServers"), JSON, "mcpServers")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(max_size=6), json_values, max_size=4),
    st.dictionaries(st.text(min_size=1, max_size=6).filter(lambda name: name != "crdtsync"), json_values, max_size=3),
    st.booleans(),
    st.sampled_from([None, 1, 2, 4, "\t"]),
)
def test_any_settings_survive_to_the_byte(
    others: dict[str, object], servers: dict[str, object], has_section: bool, indent: int | str | None
):
    whole = {name: value for name, value in others.items() if name != "mcpServers"}
    if has_section:
        whole["mcpServers"] = servers
    text = json.dumps(whole, indent=indent)
    changed = with_server(text, JSON, "mcpServers", ENTRY)
    kept = servers if has_section else {}
    assert json.loads(changed) == {**whole, "mcpServers": {**kept, "crdtsync": ENTRY}}
    assert without_server(changed, JSON, "mcpServers") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{}\n",
        "{\n}\n",
        '{"mcpServers": {}}',
        '{\n  // mine\n  "mcpServers": { /* none */ },\n}\n',
        "{ // empty\n}",
    ],
)
def test_a_section_that_was_empty_is_so_again(text: str):
    changed = with_server(text, JSON, "mcpServers", ENTRY)
    assert has_server(changed, JSON, "mcpServers")
    assert without_server(changed, JSON, "mcpServers") == text


def test_an_entry_that_says_something_else_is_replaced():
    changed = with_server(with_server(WITH_COMMENTS, JSON, "mcpServers", {"command": "old"}), JSON, "mcpServers", ENTRY)
    assert without_server(changed, JSON, "mcpServers") == WITH_COMMENTS
    assert "old" not in changed


def test_toml_keeps_its_comments_too():
    changed = with_server(TOML_TEXT, TOML, "mcp_servers", ENTRY)
    assert tomllib.loads(changed)["mcp_servers"]["crdtsync"] == ENTRY
    assert tomllib.loads(changed)["tui"] == {"theme": "dark"}
    assert 'command = "x" # keep' in changed
    assert with_server(changed, TOML, "mcp_servers", ENTRY) == changed
    assert without_server(changed, TOML, "mcp_servers") == TOML_TEXT
    assert tomllib.loads(with_server("", TOML, "mcp_servers", ENTRY)) == {"mcp_servers": {"crdtsync": ENTRY}}


@pytest.mark.parametrize(
    "text, path",
    [("{", JSON), ("[]", JSON), ('{"mcpServers": 3}', JSON), ('{"a" 1}', JSON), ("{} {}", JSON), ("a = ", TOML),
     ("mcp_servers = 3", TOML)],
)  # fmt: skip
def test_settings_that_cannot_be_read_are_left_alone(text: str, path: Path):
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        with_server(text, path, "mcpServers" if path is JSON else "mcp_servers", ENTRY)


@given(st.text(alphabet='{}[]":,/* \n\\ab1', max_size=60))
def test_no_text_crashes(text: str):
    try:
        changed = with_server(text, JSON, "mcpServers", ENTRY)
    except InvalidRequest:
        return
    assert has_server(changed, JSON, "mcpServers")


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers.o.command = "x"\nmcp_servers.p.command = "y"\n',
        'mcp_servers.crdtsync.command = "old"\nmcp_servers.o.command = "x"\n',
    ],
)
def test_a_table_never_swallows_the_dotted_keys_below_it(text: str):
    with pytest.raises(InvalidRequest, match="would mean something else; mend it, or add the server by hand"):
        with_server(text, TOML, "mcp_servers", ENTRY)


@pytest.mark.parametrize("path,text,section", [(JSON, WITH_COMMENTS, "mcpServers"), (TOML, TOML_TEXT, "mcp_servers")])
def test_lines_that_end_in_crlf_still_do(tmp_path: Path, path: Path, text: str, section: str):
    file, before = tmp_path / path, text.replace("\n", "\r\n").encode()
    file.write_bytes(before)
    write(file, in_its_lines(read(file), lambda lines: with_server(lines, path, section, ENTRY)))
    after = file.read_bytes()
    assert b"/opt/crdtsync" in after
    assert after.count(b"\n") == after.count(b"\r\n") > before.count(b"\n")
    write(file, in_its_lines(read(file), lambda lines: without_server(lines, path, section)))
    assert file.read_bytes() == before


def test_a_file_that_is_no_text_is_said_to_be_none(tmp_path: Path):
    (tmp_path / JSON).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidRequest, match="no text in UTF-8"):
        read(tmp_path / JSON)


def test_a_file_is_written_whole_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    real.chmod(0o600)
    link.symlink_to(real)
    write(link, '{"a": 1}')
    assert link.is_symlink()
    assert real.read_text() == '{"a": 1}'
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    write(link, "")
    assert not real.exists()


def test_each_client_has_a_file_of_its_own_and_variables_move_it(tmp_path: Path):
    paths = {one.path("user", tmp_path, tmp_path, {}) for one in CLIENTS}
    assert len(paths) == len(CLIENTS)
    assert client("codex").path("user", tmp_path, tmp_path, {"CODEX_HOME": "/c"}) == Path("/c/config.toml")
    assert client("claude-code").path("project", tmp_path, Path("/p"), {}) == Path("/p/.mcp.json")
    with pytest.raises(InvalidRequest, match="project"):
        client("codex").path("project", tmp_path, tmp_path, {})
    with pytest.raises(InvalidRequest, match="codex"):
        client("nano")


def test_a_client_is_found_by_what_it_leaves_in_the_home(tmp_path: Path):
    assert [one.name for one in CLIENTS if one.is_there(tmp_path, {})] == []
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".codex").mkdir()
    assert [one.name for one in CLIENTS if one.is_there(tmp_path, {})] == ["claude-code", "codex"]


HOOK = "/opt/crdtsync session hook --from codex"
OTHERS_HOOKS = """{
  "model": "opus",
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "notify-send done"}]}
    ],
    "PreToolUse": []
  }
}
"""


@pytest.mark.parametrize("text", ["", "{}", '{"hooks": {}}', OTHERS_HOOKS, OTHERS_HOOKS.replace("\n", "")])
def test_hooks_go_in_beside_those_of_others_and_out_again(text: str):
    changed = with_hooks(text, JSON, HOOK)
    hooks = json.loads(changed)["hooks"]
    for event in EVENTS:
        assert [one["command"] for group in hooks[event] for one in group["hooks"]].count(HOOK) == 1
    assert with_hooks(changed, JSON, HOOK) == changed
    other = with_hooks(changed, JSON, f"{HOOK} --agent ann")
    assert other.count(HOOK) == other.count("--agent ann") == len(EVENTS)
    assert has_hooks(changed)
    assert not has_hooks(text)
    assert without_hooks(changed, JSON) == text


def test_a_command_that_somebody_put_beside_ours_stays():
    changed = with_hooks("{}", JSON, HOOK).replace('"hooks": [', '"hooks": [{"type": "command", "command": "mine"},')
    left = json.loads(without_hooks(changed, JSON))["hooks"]
    assert left == {event: [{"hooks": [{"type": "command", "command": "mine"}]}] for event in EVENTS}


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": 1}', '{"hooks": {"Stop": {}}}', '{"hooks": {"Stop": ["x"'])
def test_hooks_that_cannot_be_read_are_left_alone(text: str):
    assert not has_hooks(text)
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        with_hooks(text, JSON, HOOK)


@given(json_values, json_values, json_values)
def test_any_hooks_survive_to_the_byte(other: object, group: object, commands: object):
    text = json.dumps({"a": other, "hooks": {"Stop": [group, {"hooks": commands}], "Other": other}}, indent=2)
    changed = with_hooks(text, JSON, HOOK)
    assert json.loads(changed)["hooks"]["Stop"][:2] == [group, {"hooks": commands}]
    assert without_hooks(changed, JSON) == text
