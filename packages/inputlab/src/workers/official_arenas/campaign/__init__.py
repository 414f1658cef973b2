"""Whole campaigns: tasks x treatments x model slots, first attempts only, resumable, verifiable.

A *plan* fixes what is measured. `run_campaign` drafts and binds scopes, captures every task once per slot, runs every
intervention once, runs every pair once, derives *results* from the receipts, analyses them and seals the folder.
"""
