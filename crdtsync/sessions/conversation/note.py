"""What the next model is told before the conversation: whose it was, how to read it, what is missing."""

from __future__ import annotations

from crdtsync.sessions.agents.description import NOTE
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.conversation.record import Conversation
from crdtsync.sessions.conversation.tools import own_name
from crdtsync.sessions.saved.header import Saved

_READ = (
    "What follows was said and done there, in this order. Files may have changed since: look before you rely on what "
    "a result shows."
)


def written(conversation: Conversation, saved: Saved, to: str, cwd: str) -> str:
    """The note for the agent ``to``, which goes on in ``cwd``."""
    before, after = AGENTS[saved.agent].title, AGENTS[to].title
    parts = [
        (
            f"{NOTE}{after}: This conversation was begun with {before} (session {saved.id}, "
            f"{saved.user} on {saved.host}, in {saved.cwd}) and goes on with you, in {cwd}."
        ),
        _READ,
    ]
    names = conversation.tool_names()
    same = [f"{name} is your {own}" for name in names if (own := own_name(name, to)) not in (None, name)]
    foreign = [name for name in names if own_name(name, to) is None]
    if same:
        parts.append(f"Tools: {'; '.join(same)}; their calls are shown as calls of yours.")
    if foreign:
        parts.append(
            f"These tools were {before}'s: {', '.join(foreign)}. Read their calls as what was done; call your own."
        )
    if saved.redacted:
        parts.append("Marks such as [redacted:github-token:1] stand for secrets that were taken out.")
    if conversation.lost:
        parts.append("Not carried over:")
        parts += [f"- {line}" for line in losses(conversation)]
    parts.append(f"`crdtsync session show {saved.id}` shows the whole session.]")
    return "\n".join(parts)


def losses(conversation: Conversation) -> list[str]:
    """What is not carried, each with its reason, a line each."""
    return [f"{count:,} × {what}: {reason}" for (what, reason), count in sorted(conversation.lost.items())]
