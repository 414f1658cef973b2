"""Home of method-level protocols.

Protocols that a method of this project depends on live on this side, and concrete classes depend on them,
never the other way round. The protocols of the safety filter are in
[`concerto.safety.api`][concerto.safety.api]; this package exports nothing of its own.
"""
