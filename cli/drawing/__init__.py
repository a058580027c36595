"""Pictures of graphs: a layered layout, and SVG, DOT and a page that shows them."""
