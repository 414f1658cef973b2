"""Rigs and campaign drivers that stand on the tasks of `chamber.envs`."""
