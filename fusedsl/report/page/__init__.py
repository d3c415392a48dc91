"""Report pages: what they say (data.py), how it is drawn (charts.py, graph_picture.py), and how it is laid out.

`Kernel.report` writes one. A page makes no request: its style, its script and its data are in it. Its sections are the
program with the kernels that compute each expression, the operations before and the kernels after fusion, a roofline,
the kernels' arrays and schedules, the tiles of attention masks, registers and occupancy on several architectures, the
generated files beside their PTX and SASS, and the program after each pass of the compiler.
"""

from .data import page_data
from .document import document, write_page

__all__ = ["document", "page_data", "write_page"]
