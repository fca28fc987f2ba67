"""Telemetry: what the daemon tells of itself: logs and metrics.

Open first: :func:`~crdtsyncd.telemetry.event_log.log`: one event a line on stderr, for people on a terminal, JSON
otherwise. Then :func:`~crdtsyncd.telemetry.prometheus.exposition`, which makes the metrics when somebody asks: from the
node's status, and from the histograms that are kept of commits and turns.

Example: a stranger tries to connect a thousand times in a minute. ``log_rate_limit`` logs the first refusals, then
counts, and says with the next line how many it left out.

Modules:

- ``event_log``: structured logs
- ``log_rate_limit``: how many lines somebody may cause who is not let in
- ``metric_catalogue``: every metric: its name, type, labels and meaning, and where its value is
- ``prometheus``: the metrics as text
- ``metrics_http``: ``GET /metrics`` on loopback
- ``metrics_privacy``: which spaces the metrics name, for any process of the machine can ask
- ``commit_histogram``: how long commits take
- ``growth_rate``: how fast the database grows
- ``turn_times``: how long the event loop is held, by what, and in which stage of a turn
- ``slow_turns``: tells the log of each turn that held the loop for too long

To add a metric: its figure in the node's status (``crdtsync.core.diagnostics.status``), its entry in
``metric_catalogue``, and a test.

May import: ``service``, ``config``, ``wording``, and ``crdtsync``.
"""
