"""Deciders: regimes, policies, rules and nets that turn observations into proposed actions."""
