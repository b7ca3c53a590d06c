"""Continuous batching over a real model: requests, scheduler, engine, runner, and what they run on."""
