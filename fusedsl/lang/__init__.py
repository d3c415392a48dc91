"""Layer 2: text to syntax tree to graph, with a caret under every fault."""
