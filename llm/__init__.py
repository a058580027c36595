"""Language models: read from files and folders (extra `llm`)."""

from __future__ import annotations

from .language_model import LanguageModel, ModelConfig
from .model_reader import read_language_model

__all__ = ["LanguageModel", "ModelConfig", "read_language_model"]
