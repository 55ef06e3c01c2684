"""Pure state machines: ``handle(event, now) -> effects``. No input or output, no clock."""
