"""Exercises that check themselves: `check` for the learner, a `lesson_X_Y` file per lesson, `editions` to build the notebooks."""
