"""Layer 2: text to syntax tree to graph, with every fault placed under the text."""
