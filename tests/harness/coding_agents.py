"""Real coding agents from npm, each in a home of its own, against a scripted model on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.model_endpoint import ModelEndpoint

PACKAGES = ["@openai/codex@0.169.0", "@anthropic-ai/claude-code@2.1.330"]
CODEX = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
CLAUDE = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"


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
        command, env=variables, cwd=directory, capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def run_codex(programs: Path, home: Path, directory: Path, model: ModelEndpoint, *arguments: str) -> str:
    """``codex exec`` with these arguments; what it prints."""
    variables = environment(home, CODEX_HOME=str(home / ".codex"), FAKE_KEY="x")
    (home / ".codex").mkdir(exist_ok=True)
    with model.running() as address:
        (home / ".codex" / "config.toml").write_text(CODEX_SETTINGS.format(address=address))
        return run([str(programs / CODEX), "exec", "--skip-git-repo-check", *arguments], variables, directory)


def run_claude(programs: Path, home: Path, directory: Path, model: ModelEndpoint, *arguments: str) -> str:
    """``claude -p`` with these arguments; what it prints."""
    quiet = dict.fromkeys(QUIET, "1")
    with model.running() as address:
        variables = environment(home, ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY="x", **quiet)
        command = [str(programs / CLAUDE), "-p", *arguments, "--allowedTools", "Bash", "Write"]
        return run(command, variables, directory)
