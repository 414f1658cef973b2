"""What a person reads about a run: summaries, explanations, figures, pages."""
