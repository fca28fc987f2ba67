"""Real daemons for tests: one, or a fleet whose network can be cut, slowed and healed."""

from tests.harness.cluster import Cluster, differences, wait_until, wait_until_equal, wait_until_held
from tests.harness.daemon import Daemon
from tests.harness.mirror import Mirror
from tests.harness.proxy import Network, Proxy
from tests.harness.raw import RawAgent, RawError

__all__ = [
    "Cluster",
    "Daemon",
    "Mirror",
    "Network",
    "Proxy",
    "RawAgent",
    "RawError",
    "differences",
    "wait_until",
    "wait_until_equal",
    "wait_until_held",
]
