"""From a generated file to LTO-IR, PTX and a cubin."""
