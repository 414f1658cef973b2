"""Transfer of what was learned in one domain to another, as a review manifest."""
