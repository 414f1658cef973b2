"""Paired first-attempt workers: one protected origin, a baseline arm, a treatment arm, one scorer."""
