"""Coding by candidates: places where mentions may stand, codes read from their words, and a judge; without torch."""
