"""What the person's hand does: controls give edges with a monotonic time, no more."""
