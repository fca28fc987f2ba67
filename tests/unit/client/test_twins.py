"""What is written by hand in both clients is the same client, and importing the blocking one costs little."""

import inspect
import subprocess
import sys

import pytest

import crdtsync
from crdtsync.client import (
    AsyncClient,
    AsyncDocument,
    AsyncEditor,
    AsyncMirror,
    AsyncResolver,
    AsyncText,
    AsyncWatch,
    Client,
    Document,
    Editor,
    Mirror,
    Resolver,
    Text,
    Watch,
)

PAIRS = [
    (Client, AsyncClient),
    (Document, AsyncDocument),
    (Editor, AsyncEditor),
    (Mirror, AsyncMirror),
    (Resolver, AsyncResolver),
    (Watch, AsyncWatch),
]
ASYNC_ONLY = {"attach"}
"""Among threads what this begins has begun."""
HEAVY = [
    "asyncio",
    "concurrent",
    "dataclasses",
    "inspect",
    "logging",
    "pycrdt",
    "pydantic",
    "random",
    "ssl",
    "subprocess",
]


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_") and name != "after_fork"}


@pytest.mark.parametrize("blocking,asynchronous", PAIRS)
def test_both_have_the_same_methods(blocking, asynchronous):
    assert public(blocking) - ASYNC_ONLY == public(asynchronous) - ASYNC_ONLY


@pytest.mark.parametrize("blocking,asynchronous", PAIRS)
def test_methods_take_the_same_arguments(blocking, asynchronous):
    for name in public(blocking):
        one, other = getattr(blocking, name), getattr(asynchronous, name)
        if callable(one):
            assert parameters(one) == parameters(other), name


def parameters(method):
    return [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize("kind", [*(kind for pair in PAIRS for kind in pair), AsyncText, Text])
def test_everything_public_is_documented(kind):
    for name in public(kind):
        assert getattr(kind, name).__doc__, name


def test_the_package_offers_the_clients_and_the_errors():
    assert crdtsync.Client is Client
    assert issubclass(crdtsync.Timeout, crdtsync.CrdtSyncError)
    assert crdtsync.__version__
    assert set(crdtsync.__all__) <= set(dir(crdtsync))
    with pytest.raises(AttributeError):
        crdtsync.nothing  # noqa: B018


def test_importing_the_blocking_client_stays_cheap():
    code = f"import sys; from crdtsync.client import Client; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
