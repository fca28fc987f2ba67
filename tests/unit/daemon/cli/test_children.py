import signal
import threading

import pytest
from crdtsyncd.cli.commands.together.children import until_told

WITHIN_S = 60


@pytest.fixture(autouse=True)
def handlers():
    """Those of the tests, again."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_another_thread_gets_is_told_too(number):
    told, is_told = [], threading.Event()

    def run():
        signal.pthread_kill(threading.get_ident(), number)
        return is_told.wait(WITHIN_S)

    def end(received):
        told.append(received)
        is_told.set()

    assert until_told(run, end)
    assert told == [number]


def test_what_it_raises_is_raised():
    def run():
        raise LookupError("nobody ended it")

    with pytest.raises(LookupError, match="nobody"):
        until_told(run, lambda _: None)
