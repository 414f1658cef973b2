"""Partners for exploring a question before it is asked in earnest; no gate accepts a run with one of them."""
