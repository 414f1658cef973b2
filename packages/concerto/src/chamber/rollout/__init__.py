"""Play a task with a team of controllers, keep what happened, look at it, and play it again.

Three nouns: a *team* has one controller per robot; an *episode* is one start, played to its end; a *session* is a
number of episodes in a run folder that `ripieno verify` checks and `replay` plays again.
"""
