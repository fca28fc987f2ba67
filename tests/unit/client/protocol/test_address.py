"""Where the daemon is looked for, under which name, and what is said when nobody answers."""

import errno
import os

import pytest

from crdtsync.client.protocol.address import agent_name, default_agent_name, socket_paths, space_name, unavailable
from crdtsync.errors import ConfigError


def test_a_socket_that_was_named_is_the_only_one_tried():
    environment = {"CRDTSYNC_SOCKET": "/env.sock", "XDG_RUNTIME_DIR": "/run/user/1"}
    assert socket_paths("/given.sock", environment) == ["/given.sock"]
    assert socket_paths(None, environment) == ["/env.sock"]


def test_a_url_is_no_path_of_a_socket():
    for at, environment in (("redis://:secret@host:6379", {}), (None, {"CRDTSYNC_SOCKET": "http://host"})):
        with pytest.raises(ConfigError, match="is a URL: give the path of the daemon's socket") as raised:
            socket_paths(at, environment)
        assert "secret" not in raised.value.message


def test_otherwise_the_users_own_comes_before_the_systems():
    assert socket_paths(None, {"XDG_RUNTIME_DIR": "/run/user/1"}) == [
        "/run/user/1/crdtsync/agent.sock",
        "/run/crdtsync/agent.sock",
    ]
    assert socket_paths(None, {}) == [f"/run/user/{os.getuid()}/crdtsync/agent.sock", "/run/crdtsync/agent.sock"]


def test_names_come_from_the_argument_then_the_environment():
    environment = {"CRDTSYNC_SPACE": "s", "CRDTSYNC_AGENT": "a"}
    assert (space_name("x", environment), space_name(None, environment), space_name(None, {})) == ("x", "s", "default")
    assert (agent_name("x", environment), agent_name(None, environment)) == ("x", "a")
    assert agent_name(None, {"LOGNAME": "Ann"}).startswith("ann.")


@pytest.mark.parametrize(
    "user,program,name",
    [
        ("ann", "/usr/bin/crdtsync", "ann.crdtsync"),
        ("ann", "worker.py", "ann.worker"),
        ("ann", "/srv/My App/__main__.py", "ann.my-app"),
        ("ann", "-c", "ann.python"),
        ("ann", "", "ann.python"),
        ("_Änn@x", "p", "nn-x.p"),
        ("a" * 200, "p", "a" * 128),
    ],
)
def test_the_default_name_is_valid(user, program, name):
    assert default_agent_name(user, program) == name


def test_nobody_there_says_what_was_tried_and_what_to_do():
    missing = FileNotFoundError(errno.ENOENT, "No such file")
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    message = unavailable([("/a.sock", missing), ("/b.sock", refused)]).message
    assert "/a.sock (no such socket) and /b.sock (nobody listens)" in message
    assert "start crdtsyncd" in message


def test_no_permission_says_which_group_to_join(tmp_path):
    path = tmp_path / "agent.sock"
    path.touch()
    message = unavailable([(str(path), PermissionError(errno.EACCES, "Permission denied"))]).message
    assert f"may not open {path}" in message
    assert "usermod -aG" in message
    hidden = unavailable([(str(path / "below" / "x.sock"), PermissionError(errno.EACCES, "denied"))]).message
    assert "usermod -aG" in hidden
    assert os.getgid() is not None
