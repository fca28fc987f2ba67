"""Adapters: the state behind the interfaces of agent frameworks.

An adapter is thin: it speaks the framework's words and calls the client. The framework's own conformance suite, where
it has one, is its test. A room for each framework:

- ``agent_framework``: histories, and checkpoints of workflows, of Microsoft Agent Framework
- ``crewai``: states of flows, and memory, of CrewAI
- ``google_adk``: sessions, memory and artifacts of Google's Agent Development Kit
- ``langgraph``: checkpoints of graphs, and its long-term store
- ``llama_index``: key-value and chat stores of LlamaIndex
- ``openai_agents``: sessions of the OpenAI Agents SDK
- ``pydantic_ai``: conversations of Pydantic AI

They share:

- ``async_attached``, ``attached``: a client, and writes of any size
- ``threads``: calls of a blocking client from any event loop
- ``keys``: names of any characters as parts of keys
- ``redaction``: a rule for texts, such as one against secrets, applied to what is about to be written
- ``readable``: what a framework can read of what is stored, where others may have written something else

Its place: above the public client only, beside ``mcp``. A module here may import :class:`crdtsync.Client`,
:class:`crdtsync.AsyncClient`, ``crdtsync.client``, ``crdtsync.errors`` and ``crdtsync.context``; never
``crdtsync.core``, ``crdtsync.wire`` or ``crdtsyncd``. import-linter holds this (the contracts ``agent-layer`` and
``library-rooms`` in ``pyproject.toml``).

Why: frameworks change often. An adapter that stands on the public client alone can be changed, or dropped, without
touching anything below it.

Each framework is an optional extra, imported by its adapter alone. It is not in the environment of the other tests, but
in one of its own (``tests/harness/frameworks.py``).
"""
