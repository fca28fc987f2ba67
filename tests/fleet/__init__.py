"""A few real nodes on real databases in one process, for tests that read like a transcript.

    with fleet_of("a", "b", linked=True) as fleet:
        ann = fleet["a"].agent("ann")
        ann.set("goal", "ship")
        fleet.sync()
        assert fleet["b"].agent("bob").get("goal") == "ship"

Time stands still until :meth:`~tests.fleet.fleet.Fleet.pass_time`, and nothing moves until somebody says so.

``fleet``        the hosts by name, their links and their time: begin here
``host``         a node on a database; ``turn`` commits and delivers, ``restart`` is ``kill -9`` and a new start
``agent``        an agent's connection: requests, events, refusals
``wire``         a connection between two hosts
``stranger``     a peer that the test plays itself: what it says, and what it heard
``listening``    all that hosts, or a host and a stranger, say, written down line by line
``clock``        when every fleet begins
``replicas``     replicas without nodes, disks and links, for the rules of the kinds
``transcript``   scenarios in a small language, one step a line
``editor``       agents that edit texts in replicas of their own
``resolver``     a resolver that answers when it is told to, and conflicts for it
``rights``       two hosts with operators, and agents with rules
``snapshots``    hosts with forgotten logs, and snapshots half taken
"""
