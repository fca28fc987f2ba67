"""``completion``: what a shell reads so that Tab completes commands, options, keys, spaces and members."""

from __future__ import annotations

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.show import output


@state_command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_: Settings, shell: str) -> None:
    """Print what lets a shell complete commands, keys and names. SHELL is bash, zsh or fish.

    \b
    Examples:
      eval "$(crdtsync completion bash)"    # in ~/.bashrc
      eval "$(crdtsync completion zsh)"     # in ~/.zshrc
      crdtsync completion fish | source     # in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class
    from crdtsyncd.cli.app import COMPLETION_VARIABLE, build

    found = get_completion_class(shell)
    assert found is not None
    output.line(found(build(), {}, "crdtsync", COMPLETION_VARIABLE).source().rstrip())
