"""OpenAI's endpoints for the language models of a repository."""
