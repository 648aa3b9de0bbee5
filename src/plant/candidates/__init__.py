"""Coding by candidates: where mentions may stand, which codes their words may name, and a judge of both."""
