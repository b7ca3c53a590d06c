"""Pictures: one file per kind, all drawn on `canvas.Canvas` or in matplotlib with `style`, and shown with `show.show`."""
