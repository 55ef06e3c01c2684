"""The bench: what somebody needs to try the handset, and to prove it, without a service behind it."""
