"""Interoperation with other libraries: torch operators, labelled arrays, JAX arrays, cloudpickle."""
