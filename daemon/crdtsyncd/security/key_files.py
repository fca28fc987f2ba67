"""The names of the files that make a node itself, beside its database."""

KEY_NAME = "node.key"
CERTIFICATE_NAME = "node.crt"
