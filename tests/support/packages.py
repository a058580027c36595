"""The folders of the package whose modules tests of the tree look at."""

PACKAGES = (
    "ir",
    "plan",
    "compiler",
    "runtime",
    "api",
    "builder",
    "serve",
    "cli",
    "compat",
    "quantization",
    "llm",
)
