"""Layer 9: what a call launches, and why, as text and data."""
