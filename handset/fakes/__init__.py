"""Fake hardware that models physics. It ships, so that anyone can test against it."""
