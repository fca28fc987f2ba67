"""Histories of clusters: who belongs to them, who may do what, and which node may hold which space.

Keys are names here and nobody can forge one: what TLS proves is taken as proven. Everything that follows from it is the
daemon's own core, on its own database.
"""
