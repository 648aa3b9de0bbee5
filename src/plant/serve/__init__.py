"""The desk: a service over a fitted coder, and a page for the people who code."""
