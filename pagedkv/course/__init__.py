"""The lessons: a folder each, with what draws (`draw/`) and what judges (`judge/`) for all of them."""
