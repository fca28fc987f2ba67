"""What the page is sent of an item of a session."""

from __future__ import annotations

from crdtsync.sessions.conversation.record import USER, Own, Text, Thinking
from crdtsync.ui.calls import _item


def test_what_only_its_agent_reads_is_not_sent_and_a_sealed_thought_is_told():
    block = {"type": "document", "source": {"data": "JVBE" * 1000}}
    assert _item(Text(USER, "[document] not carried", own=Own((block,), ("document",)))) == {
        "type": "Text", "role": "user", "text": "[document] not carried", "time": "", "images": 0, "chars": 22,
    }  # fmt: skip
    assert _item(Thinking("", own=Own((block,))))["text"] == "(sealed)"
