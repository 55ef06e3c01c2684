"""What is asked of the operating system: identity, a crash journal, paths."""
