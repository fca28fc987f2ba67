"""Rules, agents or quotas change: whatever is running and no longer allowed is ended, with the reason."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from crdtsync.core.access.records import ACCESS, AGENTS, QUOTAS
from crdtsync.core.access.requirements import Right
from crdtsync.core.access.rules import Grant, Rule
from crdtsync.core.cluster.space_records import SPACES
from crdtsync.errors import NotAllowed
from crdtsync.wire.patterns import check_pattern

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.access.authorizer import Authorizer
    from crdtsync.core.agents.dispatcher import Dispatcher
    from crdtsync.core.cluster.records import Cluster

EVERYTHING = Grant([Rule("", check_pattern("**"), Right.ADMIN)])


class Revocation:
    """Listens to the cluster's records on behalf of a dispatcher."""

    def __init__(self, dispatcher: Dispatcher, authorizer: Authorizer, cluster: Cluster) -> None:
        self._dispatcher = dispatcher
        self._authorizer = authorizer
        cluster.on_change(SPACES, self._spaces_changed)
        cluster.on_change(ACCESS, self._rules_changed)
        cluster.on_change(AGENTS, self._agents_changed)
        cluster.on_change(QUOTAS, lambda whos: authorizer.accounts.changed(list(whos)))

    def _rules_changed(self, names: Collection[str]) -> None:
        self._authorizer.rules.changed(names)
        self._review()

    def _spaces_changed(self, names: Collection[str]) -> None:
        """Rules count or no longer do: look at all that runs, unless these spaces are new and nobody can be in them."""
        is_remade = self._authorizer.rules.spaces_changed(names)
        self._authorizer.forget()
        if is_remade:
            self._review()

    def _agents_changed(self, names: Collection[str]) -> None:
        self._authorizer.agents_changed(names)
        self._expel()

    def reload(self) -> None:
        """The records have been read anew from disk, or who runs this node has changed."""
        self._authorizer.reload()
        self._authorizer.accounts.changed(None)
        self._expel()
        self._review()

    def _expel(self) -> None:
        """End the connections of agents that are no longer who they were."""
        for conn, agent in list(self._dispatcher.agents.items()):
            if agent.name and not self._authorizer.is_key_valid(agent):
                name = agent.key_name or agent.name
                reason = (
                    f"the key of the agent {name} was revoked, or its name can be used with a key alone from now on"
                )
                self._dispatcher.expel(conn, NotAllowed(reason))

    def _review(self) -> None:
        """Look at all agents again, and at what they have running."""
        self._authorizer.forget()
        for agent in list(self._dispatcher.agents.values()):
            if agent.name:
                self._authorizer.know(agent)
                self._review_watches(agent)
                self._review_resolvers(agent)
                self._review_long_reads(agent)

    def _review_watches(self, agent: Agent) -> None:
        dispatcher, authorizer = self._dispatcher, self._authorizer
        for watch in dispatcher.watches.of_conn(agent.conn):
            before, after = watch.limit, authorizer.limit_of(agent, watch.replica.name)
            if (after or EVERYTHING).reads_all_of(before or EVERYTHING):
                watch.limit = after
                if not (before or EVERYTHING).reads_all_of(after or EVERYTHING):
                    dispatcher.watches.start_over(watch)  # there is more to tell than it was told of
                continue
            space, prefix = watch.replica.name, watch.prefix
            dispatcher.watches.remove(agent.conn, watch.request)
            dispatcher.fail(
                agent.conn,
                watch.request,
                NotAllowed(
                    f"{agent.who} may no longer read all that this watch of {prefix!r} in the space {space} was of: it "
                    "has ended. Watch anew what may still be read",
                    who=agent.who,
                    right=Right.READ.word,
                    space=space,
                ),
            )

    def _review_long_reads(self, agent: Agent) -> None:
        for request, read in self._dispatcher.long_reads.of_conn(agent.conn):
            after = self._authorizer.limit_of(agent, read.replica.name)
            if not (after or EVERYTHING).reads_all_of(read.rights or EVERYTHING):
                self._dispatcher.long_reads.end(agent.conn, request)
                self._dispatcher.fail(agent.conn, request, NotAllowed(f"{agent.who} may no longer read all of this"))

    def _review_resolvers(self, agent: Agent) -> None:
        dispatcher = self._dispatcher
        for resolver in dispatcher.resolvers.of_conn(agent.conn):
            if agent.everywhere >= Right.WRITE:
                continue
            if self._authorizer.grant(agent, resolver.space).on_all(resolver.pattern) < Right.WRITE:
                dispatcher.resolvers.remove(agent.conn, resolver.request)
                text = resolver.pattern.text
                dispatcher.fail(
                    agent.conn,
                    resolver.request,
                    NotAllowed(
                        f"{agent.who} may no longer write all keys of {text!r} in the space {resolver.space}: the "
                        "resolver has ended",
                        who=agent.who,
                        right=Right.WRITE.word,
                        space=resolver.space,
                    ),
                )
