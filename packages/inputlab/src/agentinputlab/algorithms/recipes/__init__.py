"""Recipes: apply a text that was learned beforehand, learn one, or search with a tree of queries."""
