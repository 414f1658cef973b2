"""Who influences whom: coupling matrices, their projection onto constraints, and what the knobs make of them."""
