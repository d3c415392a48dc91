"""The text of a generated file, for all families."""
