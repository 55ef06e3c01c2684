"""The bench: what it takes to try the handset, and to prove it, without a service behind it."""
