"""Derived error bounds: how far a correct result may be from the exact one."""
