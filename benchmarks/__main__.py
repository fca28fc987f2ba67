"""``./dev bench NAME``: every benchmark is a command of its own."""

from __future__ import annotations

import click

from benchmarks import editing_traces, make_trace, new_node, overwrites


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Benchmarks and trials of crdtsync on this machine."""


main.add_command(editing_traces.main, "editing-traces")
main.add_command(make_trace.main, "make-trace")
main.add_command(overwrites.main, "overwrites")
main.add_command(new_node.main, "new-node")

if __name__ == "__main__":
    main(prog_name="./dev bench")
