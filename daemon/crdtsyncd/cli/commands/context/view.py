"""``view``: the part of the state that an agent should read, within a budget of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import MEANT, Settings, StateGroup
from crdtsyncd.cli.commands.context.tokens import model_option
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import KEY, TEXT
from crdtsyncd.cli.shared_options import all_of
from crdtsyncd.cli.show import output

from crdtsync.context.view.definition import BUDGET_TOKENS, STRATEGIES
from crdtsync.context.view.render import FORMATS

if TYPE_CHECKING:
    from crdtsync.context import View

_budget_option = click.option(
    "--budget",
    "budget_tokens",
    metavar="TOKENS",
    type=click.IntRange(1),
    default=BUDGET_TOKENS,
    show_default=True,
    help="How many tokens it may take.",
)
_described = all_of(
    _budget_option,
    click.option("--query", metavar="WORDS", type=TEXT, help="What speaks of this comes before what is only new."),
    click.option("--role", metavar="NAME", type=TEXT, help="What is meant for this role comes before others."),
    click.option("--pin", "pinned", metavar="KEY", multiple=True, type=KEY, help="Show this key first. Repeatable."),
    click.option(
        "--strategy",
        type=click.Choice(STRATEGIES),
        default="best",
        show_default=True,
        help="What scores best comes first, or what is newest. With tiers, all but the newest get 80 tokens.",
    ),
    click.option(
        "--full-newest",
        metavar="N",
        type=click.IntRange(0),
        default=8,
        show_default=True,
        help="How many of the newest are shown in full where they fit.",
    ),
    click.option(
        "--format", "form", type=click.Choice(FORMATS), default="markdown", show_default=True, help="Its form."
    ),
    model_option,
)


class _ViewGroup(StateGroup):
    """Its commands, or in the place of one the arguments of ``show``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = (*self.commands, *ctx.help_option_names)
        is_command = bool(args) and (args[0] in known or f"view {args[0]}" in MEANT)
        return super().parse_args(ctx, args if is_command or ctx.resilient_parsing else ["show", *args])


@click.group("view", cls=_ViewGroup)
def view() -> None:
    """Show the part of the state that an agent should read.

    A view is one block of text that never takes more tokens than its budget. Pinned keys come first, then what is
    new, relevant and sure; long values are shortened, and the last line says what was left out.
    What is none of the commands below is a PREFIX, or an option, of `view show`.

    \b
    Example:
      crdtsync view plan/ findings/ --budget 2000 --query "disk full"
    """


_since_option = click.option(
    "--since", metavar="TOKEN", type=TEXT, help="Only what is new since the view whose --json had this token."
)


@view.command("show")
@click.argument("prefixes", metavar="[PREFIX]...", nargs=-1, type=KEY)
@_described
@_since_option
def show(settings: Settings, prefixes: tuple[str, ...], **wanted: Any) -> None:
    """Print a view of the keys that start with a PREFIX, or of all keys.

    \b
    Example:
      crdtsync view show plan/ findings/ --budget 2000
    """
    from crdtsync.context import Views

    with connect(settings) as client:
        _print(settings, Views(client).view(prefixes or ("",), **wanted), is_news=wanted["since"] is not None)


@view.command("define")
@click.argument("name", type=TEXT)
@click.option(
    "--prefix", "prefixes", metavar="PREFIX", multiple=True, type=KEY, help="Only keys that start with it. Repeatable."
)
@_described
@click.option(
    "--summarize-after", metavar="N", type=click.IntRange(0), help="Show all but the N newest entries by a summary."
)
def define(settings: Settings, name: str, prefixes: tuple[str, ...], **wanted: Any) -> None:
    """Store a view under NAME, for all hosts.

    \b
    Example:
      crdtsync view define planner --prefix plan/ --prefix tasks/ --budget 1500
    """
    from crdtsync.context import Views

    with connect(settings) as client:
        definition = Views(client).define(name, prefixes or ("",), **wanted)
    output.result(settings, name, {"name": name, **definition.plain()})


@view.command("use")
@click.argument("name", type=TEXT)
@click.option("--budget", "budget_tokens", metavar="TOKENS", type=click.IntRange(1), help="In place of the view's own.")
@click.option("--query", metavar="WORDS", type=TEXT, help="In place of the view's own.")
@_since_option
def use(settings: Settings, name: str, **instead: Any) -> None:
    """Print the view NAME.

    \b
    Example:
      crdtsync view use planner
    """
    from crdtsync.context import Views

    with connect(settings) as client:
        views = Views(client)
        given = {key: one for key, one in instead.items() if one is not None}
        _print(settings, views.named(name, **given), is_news="since" in given)
        is_full = name in views.alarms()
    if is_full:
        output.warning(f"the sources of the view {name} outgrow it: crdtsync doctor says what to do")


@view.command("summarize")
@click.argument("name", type=TEXT)
def summarize(settings: Settings, name: str) -> None:
    """Make the summary of the older entries of the view NAME, for all hosts, by choosing sentences.

    In Python a model of yours can make it: `Views(state).summarize(NAME, model)`.

    \b
    Example:
      crdtsync view summarize planner
    """
    from crdtsync.context import Views

    with connect(settings) as client:
        is_new = Views(client).summarize(name)
    output.result(settings, "made" if is_new else "there was nothing new", {"name": name, "made": is_new})


@view.command("list")
def list_(settings: Settings) -> None:
    """Print the names of the views that are defined.

    \b
    Example:
      crdtsync view list
    """
    from crdtsync.context import Views

    with connect(settings) as client:
        found = Views(client).names()
    output.lines(settings, ((name, {"name": name}) for name in found), "no views: crdtsync view define makes one")


@view.command("drop")
@click.argument("name", type=TEXT)
def drop(settings: Settings, name: str) -> None:
    """Forget the definition of the view NAME.

    \b
    Example:
      crdtsync view drop planner
    """
    from crdtsync.context import Views

    with connect(settings) as client:
        if not Views(client).drop(name):
            raise absent(f"no view is called {name!r}")
    output.result(settings, name, {"name": name})


def _print(settings: Settings, shown: View, *, is_news: bool) -> None:
    if not settings.json:
        if shown.text:
            output.whole(f"{shown.text}\n".encode())
        elif shown.left_out:
            output.warning(
                f"nothing of {len(shown.left_out):,} entries fits into so few tokens: give a larger --budget"
            )
        else:
            output.warning("there is nothing new" if is_news else "no key begins so: crdtsync ls shows what there is")
        return
    fields = {"text": shown.text, "tokens": shown.tokens, "shown": list(shown.shown), "left_out": list(shown.left_out)}
    fields["gone"] = list(shown.gone)
    output.line(output.record({**fields, "token": shown.token}))
