"""Byte tables: which values are looked up by a byte, how blocks fill the tables, and their intrinsics."""

from ..emit.intrinsic import File

_FILE = File("byte_table.intrinsics")
byte_table, byte_element = _FILE.maker("byte_table", "name", ""), _FILE.maker("byte_element", "name", "number")
set_entry = _FILE.maker("set_entry", "name", "table, number, value")
look_up = _FILE.maker("look_up", "name", "table, bytes")
