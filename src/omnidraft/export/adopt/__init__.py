"""Adopt a graph that Optimum exported: it goes into a bundle unchanged, and torch is not needed.

`find_graph` decides whether the user named a graph, `optimum_directory` reads and checks the directory,
`graph_weights` finds the weights, and `adopt` copies and measures the graph. Begin with `adopt`.
"""
