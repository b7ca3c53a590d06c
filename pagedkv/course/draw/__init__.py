"""What is seen: the tools of every picture and widget, and the portraits of the package's own objects."""
