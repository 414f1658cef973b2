"""Packs to start from: written from a list of layers, from one sentence, or from the proposal of a language model.

Everything here gives text first, checks it with the loader and the validator, and writes only what is valid. Existing
files are never overwritten.
"""
