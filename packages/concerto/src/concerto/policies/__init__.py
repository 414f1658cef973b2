"""Home of trained policies that come with the package: there are none yet.

Checkpoints of one's own are read with [`chamber.learning.load_policy`][chamber.learning.policy.load_policy].
"""
