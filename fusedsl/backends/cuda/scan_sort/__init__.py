"""Scans, sorts and the best k of rows."""
