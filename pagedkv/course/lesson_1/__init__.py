"""Lesson 1: what the two parts are about, and whether this machine can run them."""

TITLE = "Start here"
