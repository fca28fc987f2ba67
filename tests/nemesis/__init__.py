"""Five real hosts under everything that goes wrong with hosts, agents that write, read and claim, and a judge.

``./dev nemesis --minutes 10 --seed 5``. What agents did and what they were answered is recorded (:mod:`.history`);
afterwards all faults end, the hosts must come to hold the same, and the record is held against it (:mod:`.checks`).
:mod:`.tasks` does the same with a queue of tasks, and workers that are killed: ``./dev soak tests/soak/test_tasks.py``.
"""
