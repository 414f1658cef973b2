"""Observers: they read a run and never act on it."""
