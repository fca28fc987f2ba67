"""The page for people: who is here, what they do, what they disagree about, and what it was like an hour ago.

People would rather look than read. ``crdtsync ui`` starts a process of its own beside the daemon, which serves one page
to this machine's browsers and asks the daemon what that page asks for.

    crdtsync ui --open

Open first: ``server``, which starts it; then ``calls``, the table of all that the page may ask for.

How a screen gets its data: the page posts ``{"key": "plan/goal"}`` to ``/api/entry``. ``guard`` refuses whoever is not
this page in a browser that was let in. ``server`` looks ``entry`` up among the calls, which ask the daemon by the
public client, and ``plain`` makes JSON of what comes. ``live`` asks the daemon twice a second for its newest point, and
tells all pages when that has moved; a page then asks again for what it shows, and for nothing else.

Modules:

- ``server``: listens, and answers
- ``guard``: who is let in, and what a browser may do with the page
- ``calls``: what the page may ask for
- ``live``: tells the page that something has changed
- ``plain``: what the client gives as JSON
- ``assets``: the page itself, without a build step: HTML, one style sheet, modules of JavaScript

Its place: the top room of the library, above ``crdtsync.sessions``; on the public client alone. It may not import
``crdtsync.core``, ``crdtsync.wire`` or ``crdtsyncd``. import-linter holds this (the contracts ``agent-layer`` and
``library-rooms`` in ``pyproject.toml``). ``pip install 'crdtsync[ui]'`` brings the web server.
"""
