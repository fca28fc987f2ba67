"""resolvers."""
