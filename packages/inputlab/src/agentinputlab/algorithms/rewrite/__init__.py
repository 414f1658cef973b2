"""Methods that rewrite the query, or search with rewritten queries."""
