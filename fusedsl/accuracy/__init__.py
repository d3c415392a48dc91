"""How far a correct result may be from the exact one: error bounds that are derived from the expression."""
