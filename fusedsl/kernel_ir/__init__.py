"""A kernel as data: phases, bodies, attention, the plan; its analyses and its verifier."""
