"""Real coding agents from npm, each in a home of its own, against a scripted model on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.harness.model_endpoint import ModelEndpoint

PACKAGES = ["@openai/codex@0.169.0", "@anthropic-ai/claude-code@2.1.330"]
CODEX = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
CLAUDE = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
OLD_PACKAGES = ["@openai/codex@0.29.0", "@anthropic-ai/claude-code@1.0.128"]
OLD_CODEX = "node_modules/@openai/codex/bin/codex-x86_64-unknown-linux-musl"
OLD_CLAUDE = "node_modules/@anthropic-ai/claude-code/cli.js"
MORE_PACKAGES = ["@google/gemini-cli@0.61.0", "opencode-linux-x64@1.18.33"]
GEMINI = "node_modules/@google/gemini-cli/bundle/gemini.js"
OPENCODE = "node_modules/opencode-linux-x64/bin/opencode"


QUIET = [
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_AUTOUPDATER",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
]

CODEX_SETTINGS = """\
model = "gpt-5"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{address}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"

[features]
plugins = false

[analytics]
enabled = false
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of this machine but PATH; a home of its own."""
    home.mkdir(exist_ok=True)
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "TMPDIR": str(temporary), **more}


def run(command: list[str], variables: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        command, env=variables, cwd=directory, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def run_codex(
    programs: Path, home: Path, directory: Path, model: ModelEndpoint, *arguments: str, program: str = CODEX
) -> str:
    """``codex exec`` with these arguments; what it prints."""
    variables = environment(home, CODEX_HOME=str(home / ".codex"), FAKE_KEY="x")
    (home / ".codex").mkdir(exist_ok=True)
    with model.running() as address:
        (home / ".codex" / "config.toml").write_text(CODEX_SETTINGS.format(address=address))
        return run([str(programs / program), "exec", "--skip-git-repo-check", *arguments], variables, directory)


def run_claude(
    programs: Path, home: Path, directory: Path, model: ModelEndpoint, *arguments: str, program: str = CLAUDE
) -> str:
    """``claude -p`` with these arguments; what it prints."""
    quiet = dict.fromkeys(QUIET, "1")
    with model.running() as address:
        variables = environment(home, ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY="x", **quiet)
        node = ["node"] if program.endswith(".js") else []
        command = [*node, str(programs / program), "-p", *arguments, "--allowedTools", "Bash", "Write"]
        return run(command, variables, directory)


def run_gemini(programs: Path, home: Path, directory: Path, model: ModelEndpoint, *arguments: str) -> str:
    """``gemini`` with these arguments; what it prints."""
    node = shutil.which("node")
    assert node is not None
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True},
    }
    with model.running() as address:
        variables = environment(home, GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=address)
        (home / ".gemini").mkdir(exist_ok=True)
        (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        command = [node, str(programs / GEMINI), "--yolo", "--skip-trust", "--model", "gemini-2.5-pro", *arguments]
        return run(command, variables, directory)


def run_opencode(programs: Path, home: Path, directory: Path, model: ModelEndpoint, *arguments: str) -> str:
    """``opencode`` with these arguments; what it prints. It looks things up elsewhere: at a proxy that is not there."""
    off = {
        f"OPENCODE_DISABLE_{what}": "1" for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    }
    proxy = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    models = {"m": {"name": "m", "tool_call": True, "limit": {"context": 100_000, "output": 4_000}}}
    with model.running() as address:
        variables = environment(home, **off, **proxy)
        fake = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{address}/v1", "apiKey": "x"}}
        settings = {"model": "fake/m", "small_model": "fake/m", "permission": {"bash": "allow"}, "share": "disabled",
                    "autoupdate": False, "provider": {"fake": {**fake, "models": models}}}  # fmt: skip
        folder = home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "opencode.json").write_text(json.dumps(settings))
        return run([str(programs / OPENCODE), *arguments], variables, directory)
