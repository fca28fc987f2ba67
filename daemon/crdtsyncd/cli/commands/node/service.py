"""``service``: crdtsyncd as a service of systemd."""

from __future__ import annotations

import click
from crdtsyncd.cli.command import Settings, StateGroup
from crdtsyncd.cli.errors import CommandFailed
from crdtsyncd.cli.show import output
from crdtsyncd.wording import counted

NOT_RUNNING = 3

user_option = click.option("--user", is_flag=True, help="For yourself alone, by your own service manager.")


@click.group("service", cls=StateGroup)
def service() -> None:
    """Run crdtsyncd as a service of systemd."""


@service.command("install")
@user_option
def install(settings: Settings, user: bool) -> None:
    """Put the service in place, enable it and start it. What is in place already stays as it is.

    For the whole machine by default, with a user, a group and hardening of its own; who is in the group crdtsync may
    use it. Settings go into /etc/crdtsync/crdtsyncd.toml.

    \b
    Examples:
      sudo crdtsync service install
      crdtsync service install --user
    """
    from crdtsyncd.service.install_units import install as put_in_place
    from crdtsyncd.service.install_units import place_of

    put_in_place(place_of(user), lambda what, where: _say(settings, what, where))
    if not settings.json and user:
        output.line("to keep it running while you are logged out: loginctl enable-linger")
    elif not settings.json:
        output.line("who is to use it joins its group: usermod -a -G crdtsync NAME")


@service.command("uninstall")
@user_option
def uninstall(settings: Settings, user: bool) -> None:
    """Stop the service and remove it. Its data, its settings and its user stay.

    \b
    Example:
      sudo crdtsync service uninstall
    """
    from crdtsyncd.service.install_units import place_of
    from crdtsyncd.service.install_units import uninstall as remove

    remove(place_of(user), lambda what, where: _say(settings, what, where))
    if not settings.json:
        kept = "~/.local/state/crdtsync" if user else "/var/lib/crdtsync and /etc/crdtsync"
        output.line(f"kept: {kept}")


@service.command("status")
@user_option
def status(settings: Settings, user: bool) -> None:
    """Show whether the service is installed and runs. Exit status 3 if it does not run.

    \b
    Example:
      crdtsync service status
    """
    from crdtsyncd.service.diagnose_units import faults
    from crdtsyncd.service.install_units import UNITS, installed_places, place_of, states

    place = place_of(user)
    found_states = states(place)
    if settings.json:
        output.line(output.record({"units": [found._asdict() for found in found_states]}))
    else:
        for found in found_states:
            pid = f", pid {found.pid}" if found.pid else ""
            restarts = f", restarted {counted(found.restarts, 'time')}" if found.restarts else ""
            text = f": {found.text}" if found.text else ""
            output.line(f"{found.unit}  {found.active}, {found.enabled}{pid}{restarts}{text}")
    wrong = {fault.unit: fault for fault in faults(place, found_states)}
    if wrong:
        worst = wrong.get(UNITS[1]) or next(iter(wrong.values()))
        others = [other for other in installed_places() if other.sysusers != place.sysusers]
        is_other = others and all(found.enabled == "not installed" for found in found_states)
        elsewhere = f"; another one is: crdtsync service status{'' if user else ' --user'}" if is_other else ""
        raise CommandFailed(
            f"{worst.unit}{place.whose} {worst.message}; {worst.remedy}{elsewhere}",
            status=NOT_RUNNING,
            code="unavailable",
        )


def _say(settings: Settings, what: str, where: str) -> None:
    output.line(output.record({"did": what, "what": where}) if settings.json else f"{what} {where}")
    output.flush()
