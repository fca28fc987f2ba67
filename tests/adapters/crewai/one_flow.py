"""One flow on several daemons: ``save SOCKET…`` stores a state on each, ``load SOCKET…`` prints what each has."""

from __future__ import annotations

import sys

from crdtsync.adapters.crewai import CrdtFlowPersistence

for number, socket in enumerate(sys.argv[2:]):
    flows = CrdtFlowPersistence(socket)
    if sys.argv[1] == "save":
        flows.save_state("one", "step", {"by": number})
    else:
        print(flows.load_state("one"))
    flows.close()
