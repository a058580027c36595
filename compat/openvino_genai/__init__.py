"""`import irc_compiler.compat.openvino_genai as ov_genai`: LLMPipeline on irc.

Options keep OpenVINO GenAI's names and defaults: greedy unless `do_sample`, and a text goes through
the model's chat template as a message of the user unless `apply_chat_template=False`. An option
that irc does not have is refused if its value asks for something; a property that irc does not
follow warns once. Needs the extra `llm`.
"""

from __future__ import annotations

from ..nearest import module_attributes
from .pipeline import LLMPipeline, draft_model
from .results import DecodedResults, PerfMetrics
from .settings import GenerationConfig
from .streamers import StreamerBase, StreamingStatus, TextStreamer
from .tokenizer import TokenizedInputs, Tokenizer

__all__ = [
    "DecodedResults",
    "GenerationConfig",
    "LLMPipeline",
    "PerfMetrics",
    "StreamerBase",
    "StreamingStatus",
    "TextStreamer",
    "TokenizedInputs",
    "Tokenizer",
    "draft_model",
]

__getattr__ = module_attributes(__name__, globals())
