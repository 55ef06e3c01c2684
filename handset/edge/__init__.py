"""The way to the edge: wire format, Opus, signalling, peer connection, durable store."""
