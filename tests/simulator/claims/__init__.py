"""Histories of claims: the clients' own code on whole nodes, in simulated time, and a judge that knows the real time.

The problem: a claim is made by the client (``AsyncLease``), with asyncio, timeouts and the clock of its host. So here
runs the real client on an event loop whose time is simulated, over sockets that lead to the nodes of ``tests.fleet``.
A seed says who claims what when, which links are cut, slow or silent, which daemons and agents are killed, which agents
freeze, and how wrong every clock is.

``virtual_loop``   the event loop, and processes in it that can freeze
``machines``       hosts, their clocks, the sockets of their agents and the links between them
``votes``          hosts that do nothing but vote, for claims by quorum
``histories``      what happens, from a seed: begin here
``judge``          what must never be
``plants``         faults that the judge must find
"""
