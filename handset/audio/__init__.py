"""The sound card: the only importer of sounddevice, the only caller of the native code."""
