"""Lesson 2.1: how many bytes a token takes, and a span for every request."""

TITLE = "Contiguous allocation"
SENTENCE = "a span as long as the\nlongest possible request"
