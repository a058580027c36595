"""Options of OpenVINO GenAI: GenerationConfig, and properties of LLMPipeline, as irc's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from ...ir.errors import UsageError
from ...llm.llm import LLM
from ...llm.sampling import GenerationOptions
from ..warn import warn_once

_UNLIMITED: Final = (1 << 64) - 1
_CACHE_FORMS: Final = ("f32", "f16", "bf16", "u8", "u4")
_PRECISIONS: Final = ("bf16", "f16")


@dataclass
class GenerationConfig:
    """OpenVINO GenAI's generation options that irc has, with its defaults. Those at the end are
    accepted where they request nothing."""

    max_new_tokens: int = _UNLIMITED
    max_length: int = _UNLIMITED
    ignore_eos: bool = False
    stop_strings: Collection[str] = ()
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = _UNLIMITED
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    rng_seed: int = 0
    num_beams: int = 1
    apply_chat_template: bool = True
    num_assistant_tokens: int = 0
    eos_token_id: int = -1
    min_new_tokens: int = 0
    num_return_sequences: int = 1
    num_beam_groups: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    include_stop_str_in_output: bool = False
    echo: bool = False
    stop_token_ids: Collection[int] = ()

    def with_options(self, options: Mapping[str, Any]) -> GenerationConfig:
        """A copy with fields of these names. UsageError for another name."""
        known = [f.name for f in fields(self)]
        for name in options:
            if name not in known:
                raise UsageError("irc has no such option", got=name, expected=", ".join(known))
        return replace(self, **options)

    def update_generation_config(self, **options: Any) -> None:
        """Set fields by name."""
        for name, value in vars(self.with_options(options)).items():
            setattr(self, name, value)

    def is_greedy_decoding(self) -> bool:
        """Whether the most likely token is taken."""
        return not self.do_sample and self.num_beams == 1

    def is_beam_search(self) -> bool:
        """Whether beams are searched."""
        return self.num_beams > 1


# Fields that irc does not have -> the values that request nothing.
_NEUTRAL: Final[Mapping[str, Any]] = {
    "min_new_tokens": 0,
    "num_return_sequences": 1,
    "num_beam_groups": 1,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "include_stop_str_in_output": False,
    "echo": False,
}


def make_text_options(
    llm: LLM, config: GenerationConfig, prompt_tokens: int, *, lookup: bool
) -> GenerationOptions:
    """irc's options. UsageError for what irc does not have."""
    for name, neutral in _NEUTRAL.items():
        if getattr(config, name) != neutral:
            raise UsageError(
                "irc does not have this option",
                where=f"GenerationConfig.{name}",
                got=getattr(config, name),
                expected=neutral,
            )
    ends = set(llm.config.eos_token_ids)
    given = {*config.stop_token_ids, *([config.eos_token_id] if config.eos_token_id >= 0 else [])}
    if not given <= ends:
        raise UsageError(
            "irc ends texts at the model's own end tokens",
            got=sorted(given),
            expected=f"some of {sorted(ends)}",
        )
    room = llm.settings.context_length - prompt_tokens
    count = config.max_new_tokens
    if count == _UNLIMITED and config.max_length != _UNLIMITED:
        count = config.max_length - prompt_tokens
    guessed = config.num_assistant_tokens or None
    return GenerationOptions(
        max_tokens=max(1, min(count, room)) if count > 0 else count,
        temperature=config.temperature if config.do_sample else 0.0,
        top_k=0 if config.top_k >= llm.config.vocabulary else config.top_k,
        top_p=config.top_p,
        min_p=config.min_p,
        repetition_penalty=config.repetition_penalty,
        stop=sorted(config.stop_strings),
        seed=config.rng_seed,
        num_beams=config.num_beams,
        ignore_eos=config.ignore_eos,
        lookup=(guessed or 5) if lookup else 0,
        draft_tokens=None if lookup or llm.draft is None else guessed,
    )


@dataclass(frozen=True)
class PipelineSettings:
    """Arguments of irc.LLM, and whether tokens are guessed by prompt lookup."""

    llm: dict[str, Any] = field(default_factory=dict[str, Any])
    lookup: bool = False


# Properties that request what irc does anyway, or choose among correct implementations.
_ACCEPTED: Final[Mapping[str, tuple[str, ...] | None]] = {
    "INFERENCE_PRECISION_HINT": ("f32", "float", "float32", ""),
    "PERFORMANCE_HINT": ("LATENCY", ""),
    "NUM_STREAMS": ("1", "AUTO"),
    "EXECUTION_MODE_HINT": ("ACCURACY",),
    "CACHE_DIR": ("",),
    "LOG_LEVEL": None,
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": ("0",),
}


def make_settings(device: str, properties: Mapping[str, Any]) -> PipelineSettings:
    """What the properties of a pipeline mean. UsageError for a device that is not the CPU."""
    if device.split(":")[0] not in ("CPU", "AUTO"):
        raise UsageError("irc compiles for the CPU", got=device, expected="CPU or AUTO")
    found: dict[str, Any] = {}
    lookup = False
    for name, value in properties.items():
        text = str(value).rsplit(".", 1)[-1].strip("<>' ").removeprefix("Type: '")
        if name == "INFERENCE_NUM_THREADS":
            found["num_threads"] = int(value) or None
        elif name == "KV_CACHE_PRECISION" and text in _CACHE_FORMS:
            found["kv_cache"] = text
        elif name == "INFERENCE_PRECISION_HINT" and text in _PRECISIONS:
            found["precision"] = text
        elif name == "DYNAMIC_QUANTIZATION_GROUP_SIZE" and text != "0":
            found["activations"] = "int8"
        elif name == "draft_model":
            found["draft"] = value
        elif name == "prompt_lookup":
            lookup = bool(value)
        elif name not in _ACCEPTED or text not in (_ACCEPTED[name] or (text,)):
            warn_once(f"the property {name}={text}", "irc does not follow it")
    return PipelineSettings(found, lookup)
