"""``crdtsync mcp install``, ``uninstall`` and ``status`` as somebody runs them, in a home with files of each client."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.shell import Done, Shell

pytestmark = pytest.mark.integration

SETTINGS = {
    ".claude.json": '{"numStartups": 5,   "mcpServers": {"other": {"command": "x"}}, "projects": {}}\n',
    ".claude/settings.json": '{\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say"}]}]}\n}\n',
    ".codex/config.toml": '# mine\nmodel = "gpt-5"   # keep\n\n[mcp_servers.other]\ncommand = "x"\n',
    ".cursor/mcp.json": '{"mcpServers": {}}',
    ".config/Code/User/mcp.json": '{\n\t// mine\n\t"servers": {},\n}\n',
    ".gemini/settings.json": '{"theme":"dark"}',
    ".config/Claude/claude_desktop_config.json": '{\n    "mcpServers": {\n        // none\n    }\n}',
}


class Home:
    def __init__(self, place: Path) -> None:
        self._shell = Shell(place / "none", place)
        self.path, self.project = place / "home", place
        for name, text in SETTINGS.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)

    def run(self, *arguments: str, status: int = 0, **environment: str) -> Done:
        done = self._shell("mcp", *arguments, HOME=str(self.path), **environment)
        assert (done.status, not done.err) == (status, not status), done
        return done

    def files(self) -> dict[str, str]:
        found = [path for path in self.path.rglob("*") if path.is_file() and ".cache" not in path.parts]
        return {str(path.relative_to(self.path)): path.read_text() for path in found}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_every_client_gets_the_server_and_gives_it_back_to_the_byte(home: Home):
    assert home.run("status").out.count(": not installed (") == 6
    shown = home.run("install", "--hooks", "--dry-run").out
    assert shown.count("would change") == 8
    assert home.files() == SETTINGS
    home.run("install", "--hooks", "--agent", "reviewer")
    assert home.run("status").out.count(": installed") == 6
    assert home.run("status").out.count(" with hooks") == 2
    assert all("reviewer" in text for text in home.files().values())
    assert " changed\n" not in home.run("install", "--hooks", "--agent", "reviewer").out
    home.run("uninstall")
    assert home.files() == SETTINGS


def test_settings_of_a_project_hold_nothing_of_this_machine(home: Home):
    home.run("install", "--client", "claude-code", "--scope", "project")
    (server,) = json.loads((home.project / ".mcp.json").read_text())["mcpServers"].values()
    assert (server["command"], server["args"][:2]) == ("crdtsync", ["mcp", "serve"])
    home.run("uninstall", "--client", "claude-code", "--scope", "project")
    assert not (home.project / ".mcp.json").exists()
    assert home.files() == SETTINGS


def test_a_project_gets_the_files_of_the_clients_that_have_some_there(home: Home):
    home.run("install", "--scope", "project")
    files = [home.project / name for name in (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")]
    assert all("crdtsync" in file.read_text() for file in files)
    home.run("uninstall", "--scope", "project")
    assert not any(file.exists() for file in files)
    assert home.files() == SETTINGS


def test_a_broken_file_of_one_client_does_not_stop_the_others(home: Home):
    (home.path / ".codex/config.toml").write_text("= broken")
    (home.path / ".cursor/mcp.json").unlink()
    (home.path / ".cursor/mcp.json").mkdir()
    (home.path / ".gemini/settings.json").unlink()
    os.mkfifo(home.path / ".gemini/settings.json")
    (home.path / ".claude/settings.json").unlink()
    (home.path / ".claude/settings.json").symlink_to("settings.json")
    home_file = home.path / ".config/Claude/claude_desktop_config.json"
    told = home.run("install", "--hooks", status=4).err
    assert [name in told for name in (".codex/config.toml", ".cursor/mcp.json is no file")] == [True, True], told
    assert [name in told for name in (".gemini/settings.json is no file", ".claude/settings.json")] == [True, True]
    assert all("mcp" in file.read_text() for file in (home.path / ".claude.json", home_file))
    shown = home.run("status", status=4)
    assert "Claude Desktop: installed" in shown.out
    assert all(name in shown.err for name in ("settings.json", ".cursor/mcp.json", ".gemini"))


def test_a_byte_order_mark_stays(home: Home):
    for name, text in SETTINGS.items():
        (home.path / name).write_text("\ufeff" + text)
    before = home.files()
    home.run("install", "--hooks")
    assert home.run("status").out.count(": installed") == 6
    assert home.run("status").out.count(" with hooks") == 2
    assert all(home.files()[name].startswith("\ufeff") and "crdtsync" in home.files()[name] for name in SETTINGS)
    home.run("uninstall")
    assert home.files() == before


def test_the_server_attaches_as_the_command_does_and_no_settings_hold_a_key(home: Home):
    key = home.project / "key"
    told = home.run("install", status=4, CRDTSYNC_AGENT_KEY="c1.secret.ann").err
    assert "--agent-key-file" in told
    assert "secret.ann" not in told
    assert home.files() == SETTINGS
    words = ["--socket", str(home.project / "none"), "--space", "team", "--agent-key-file", str(key)]
    by_options, by_variables = ["--agent-key-file", "key", "--space", "team"], {"CRDTSYNC_AGENT_KEY_FILE": "key"}
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (by_options, {}),
        ([], {**by_variables, "CRDTSYNC_SPACE": "team"}),
    ]
    for arguments, environment in cases:
        home.run("install", "--hooks", *arguments, **environment)
        (server,) = json.loads((home.path / ".cursor/mcp.json").read_text())["mcpServers"].values()
        assert server["args"] == ["mcp", "serve", *words]
        assert " ".join(words) in (home.path / ".codex/hooks.json").read_text()
        home.run("uninstall")
