"""Reading and printing graphs as text."""
