"""The ``crdtsync`` group: which command lives in which module, and how a run of one ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from crdtsyncd import terminal
from crdtsyncd.cli.command import LazyGroup, common_options
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPLETION_VARIABLE = "_CRDTSYNC_COMPLETE"

# Section of the help → name of a command → where it is. The help shows them in this order.
SECTIONS: dict[str, dict[str, str]] = {
    "Keys": {
        "set": "keys.basics:set_",
        "touch": "keys.basics:touch",
        "get": "keys.get:get",
        "update": "keys.update:update",
        "edit": "keys.edit:edit",
        "del": "keys.basics:delete",
        "ls": "keys.basics:ls",
    },
    "Conflicts and history": {
        "conflicts": "conflicts.conflicts:conflicts",
        "resolve": "conflicts.conflicts:resolve",
        "history": "conflicts.history:history",
        "bring-back": "conflicts.bring_back:bring_back",
        "schema": "conflicts.schema:schema",
        "purge": "conflicts.purge:purge",
        "resolver": "conflicts.resolver:resolver",
    },
    "The past": {
        "checkpoint": "time.checkpoints:checkpoint",
        "undo": "time.restore:undo",
    },
    "Counters, sets, maps": {
        "incr": "kinds.counters:incr",
        "reset": "kinds.counters:reset",
        "add": "kinds.sets:add",
        "discard": "kinds.sets:discard",
        "members": "kinds.sets:members",
        "merge": "kinds.maps:merge",
        "drop": "kinds.maps:drop",
    },
    "Logs and texts": {
        "append": "kinds.logs:append",
        "log": "kinds.logs:log",
        "trim": "kinds.logs:trim",
        "remove": "kinds.logs:remove",
        "text": "kinds.text:text",
        "doc": "kinds.doc:doc",
        "yjs": "kinds.yjs:yjs",
    },
    "Files": {
        "blob": "keys.blob:blob",
    },
    "Many keys at once": {
        "batch": "keys.batch:batch",
        "export": "keys.export:export",
        "import": "keys.import_:import_",
        "import-from": "keys.import_from:import_from",
    },
    "Following": {
        "watch": "keys.watch:watch",
        "wait": "keys.wait:wait",
        "now": "keys.wait:now",
    },
    "Working together": {
        "claim": "together.claims:claim",
        "release": "together.claims:release",
        "claims": "together.claims:claims",
        "task": "together.tasks:task",
        "tasks": "together.tasks:tasks",
        "work": "together.tasks:work",
        "on": "together.reactions:on",
        "ask": "together.asks:ask",
        "asks": "together.asks:asks",
        "answer": "together.asks:answer",
        "who": "together.presence:who",
    },
    "For a model's window": {
        "view": "context.view:view",
        "search": "context.search:search",
        "memory": "context.memory:memory",
        "context": "context.shared:context",
        "tokens": "context.tokens:tokens",
        "compress": "context.compress:compress",
        "mcp": "context.mcp:mcp",
    },
    "Sessions of coding agents": {
        "session": "context.sessions:session",
    },
    "Spaces": {
        "space": "cluster.spaces:space",
    },
    "Rights": {
        "agent": "cluster.agents:agent",
        "access": "cluster.access:access",
    },
    "Clusters": {
        "cluster": "cluster.cluster:cluster",
    },
    "This node": {
        "status": "node.status:status",
        "peers": "node.status:peers",
        "explain": "node.explain:explain",
        "top": "node.top:top",
        "ui": "node.ui:ui",
        "doctor": "node.doctor:doctor",
        "metrics": "node.metrics:metrics",
        "log-level": "node.metrics:log_level",
        "backup": "node.backup:backup",
        "restore": "node.backup:restore",
        "service": "node.service:service",
        "completion": "node.completion:completion",
    },
}

HELP = """Shared state for fleets of AI agents: read, write and follow it through the daemon on this host.

\b
Examples:
  crdtsync set plan/goal '"ship it"'
  crdtsync get plan/goal
  crdtsync watch plan/

VALUE is JSON, and so is what comes out. `crdtsync COMMAND --help` shows an example of each command.

\b
Exit status: 0 done, 1 absent or a condition was false, 2 usage, 3 no daemon,
4 refused, 5 timeout, 6 needs resolving.
"""


def build() -> LazyGroup:
    """The group with its options and the table of its commands."""
    group = LazyGroup(
        "crdtsync",
        sections=SECTIONS,
        package="crdtsyncd.cli.commands",
        help=HELP,
        params=common_options(),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    group.params.append(_version_option())
    return group


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit status; every failure has been reported when it returns."""
    group = build()
    instruction = os.environ.get(COMPLETION_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(group, {}, "crdtsync", COMPLETION_VARIABLE, instruction)
    try:
        with group.make_context("crdtsync", list(arguments)) as context:
            group.invoke(context)
            output.flush()
    except click.exceptions.Exit as ending:
        return int(ending.exit_code)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # a user never sees a traceback
        from crdtsyncd.cli.errors import report

        return report(error, as_json=_wants_json(arguments))
    return 0


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` was given; asked of the arguments themselves, for they may be what could not be parsed."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def _version_option() -> click.Option:
    def show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            from importlib.metadata import version

            terminal.line(f"crdtsync {version('crdtsync')}", at_once=True)
            context.exit()

    help_text = "Show the version and exit."
    return click.Option(["--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help=help_text)
