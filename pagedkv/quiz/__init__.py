"""Exercises that check themselves: `check` for the learner, one `lesson_X_Y` file of exercises per lesson, `editions` to build notebooks."""
