"""Security: the node's key, TLS between daemons, and who is trusted.

A peer is known by its key alone. Its *pin* is the SHA-256 of the public key in its self-signed certificate. Names,
issuers and host names mean nothing here. Trust is the list of certificates of the cluster's members; when the
members change, new TLS contexts take their place.

Example: node b dials node a. Both show their certificates. a finds b's pin among its members and knows that it is
b, whatever address it comes from. A stranger is refused before a message of it is read, and a node that wants to
join may speak of joining and nothing else.

Open first: :class:`~crdtsyncd.security.trusted_members.Trust`.

Modules:

- ``node_key``: the key and its certificate: made at the first start, renewed, replaced
- ``key_files``: the names of the files that make a node itself
- ``tls``: the TLS contexts: listening, dialling, joining
- ``trusted_members``: whom this daemon trusts
- ``peer_identity``: who is at the other end, as names alone; light to import

May import: ``telemetry``, ``service``, ``config``, ``wording``, and ``crdtsync``.
"""
