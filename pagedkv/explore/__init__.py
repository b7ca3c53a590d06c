"""Widgets: one file each. `picture(**parameters) -> svg` draws, `explorer()` wires it to controls with `widget.explore`."""
