"""What a condition is on a whole tile: intervals and three-valued logic."""
