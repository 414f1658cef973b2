"""Binding specs: their parts, how they are read, and what makes one valid."""
