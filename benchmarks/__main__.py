"""``./dev bench NAME``: every benchmark is a command of its own."""

from __future__ import annotations

import click

from benchmarks import (
    backup,
    checkpointers,
    counting,
    editing_traces,
    idle,
    large_fleet,
    make_trace,
    mcp_sessions,
    mirror,
    new_node,
    overwrites,
    page,
    past,
    profile,
    recall,
    sessions,
    together,
)
from benchmarks.context import command as context
from benchmarks.rivals import command as rivals


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Benchmarks and trials of crdtsync on this machine.

    Without a name: beside others, in full, and docs/explanation/performance.md is written anew (rivals --write-docs).
    """
    if context.invoked_subcommand is None:
        context.invoke(rivals.main, write_docs=True)


main.add_command(backup.main, "backup")
main.add_command(checkpointers.main, "checkpointers")
main.add_command(context.main, "context")
main.add_command(counting.main, "counting")
main.add_command(editing_traces.main, "editing-traces")
main.add_command(large_fleet.main, "fleet")
main.add_command(idle.main, "idle")
main.add_command(make_trace.main, "make-trace")
main.add_command(mcp_sessions.main, "mcp")
main.add_command(mirror.main, "mirror")
main.add_command(overwrites.main, "overwrites")
main.add_command(new_node.main, "new-node")
main.add_command(page.main, "page")
main.add_command(past.main, "past")
main.add_command(profile.main, "profile")
main.add_command(recall.main, "recall")
main.add_command(rivals.main, "rivals")
main.add_command(sessions.main, "sessions")
main.add_command(together.main, "together")

if __name__ == "__main__":
    main(prog_name="./dev bench")
