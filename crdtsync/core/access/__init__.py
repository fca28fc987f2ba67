"""Who may do what: agents' identities, rules, the table of rights, quotas. See docs/how-to/rights.md."""
