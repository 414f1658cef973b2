"""Selectors: which intervention to run on a state, judged by what the agent can see.

`features` measures a visible state, `rules` chooses by comparing the measures, `cards` says which selectors exist and
reads their artifacts. `NoOpIntervention` is the choice to leave the input alone.
"""

from agentinputlab.selectors.cards import (
    SelectorCard,
    get_selector,
    inspect_selector,
    list_selectors,
    load_selector,
)
from agentinputlab.selectors.features import FEATURES, FEATURES_ID, visible_features
from agentinputlab.selectors.no_op import NoOpIntervention
from agentinputlab.selectors.rules import Rule, RuleSelector, Selection

__all__ = [
    "FEATURES",
    "FEATURES_ID",
    "NoOpIntervention",
    "Rule",
    "RuleSelector",
    "Selection",
    "SelectorCard",
    "get_selector",
    "inspect_selector",
    "list_selectors",
    "load_selector",
    "visible_features",
]
