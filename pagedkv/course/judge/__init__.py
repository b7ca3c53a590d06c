"""What decides whether an answer is right: `check` for the learner, exercises and their parts for who writes them."""
