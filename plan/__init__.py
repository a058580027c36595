"""The plan language: what lowering writes and the runtime executes."""
