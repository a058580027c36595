"""The commands of irc: a module for each, with `add_arguments` and `run`."""
