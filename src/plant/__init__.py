"""Read a long text, name the right codes out of thousands, and show the words that made the decision."""

__version__ = "0.1.0"
