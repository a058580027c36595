"""Operators of the domain com.microsoft that irc does not read, and why.

A test compares this table and the importers with the operators that onnxruntime defines.
"""

from __future__ import annotations

_GPU = "it is for GPUs: onnxruntime's CPU provider has no kernel of it"
_WRAPPED = "the node holds a program for another processor"
_BLOCK_FLOAT = "its block floating-point types are those of one accelerator"
_SEARCH = (
    "it generates tokens in a loop of its own: take its decoder graph as a model, and generate "
    "with irc.LLM"
)

REASONS: dict[str, str] = {
    # With a CPU kernel in onnxruntime.
    "AttnLSTM": "an LSTM with attention in its cell: no exporter writes it any more",
    "BeamSearch": _SEARCH,
    "GatherPacked": "its packed formats are private to onnxruntime: use GatherBlockQuantized",
    "GreedySearch": _SEARCH,
    "MatMulFpQ4": "its weights are packed for MLAS, onnxruntime's library: use MatMulNBits",
    "MaxpoolWithMask": "onnxruntime keeps it for internal use",
    "Sampling": _SEARCH,
    "SparseToDenseMatMul": "irc has no sparse inputs",
    "WhisperBeamSearch": _SEARCH,
    # Programs for other processors.
    "EPContext": _WRAPPED,
    "Snpe": _WRAPPED,
    "DequantizeBFP": _BLOCK_FLOAT,
    "QuantizeBFP": _BLOCK_FLOAT,
} | dict.fromkeys(
    (
        "BitmaskBiasDropout",
        "BitmaskDropout",
        "ComplexMul",
        "ComplexMulConj",
        "ConvStateReplay",
        "DecoderAttention",
        "DecoderMaskedSelfAttention",
        "DequantizeWithOrder",
        "DynamicSparseAttention",
        "FusedMatMulActivation",
        "GatedDeltaNetStateReplay",
        "GatedRelativePositionBias",
        "GemmFloat8",
        "GemmaRotaryEmbedding",
        "HyperConnectionLowRankMix",
        "Irfft",
        "IsAllFinite",
        "LongformerAttention",
        "Mamba2Verify",
        "MatMulBlockQuantizedFp4Weight",
        "MatMulBlockQuantizedFp8Weight",
        "MatMulNBitsMlp",
        "MatMulNBitsQLoRA",
        "MatMulNBitsQkv",
        "MatMulPacked",
        "MoEPacked",
        "MulInteger",
        "PackedSparseAttentionIndexer",
        "PackedSparseAttentionIndexerMerge",
        "PagedAttention",
        "QOrderedAttention",
        "QOrderedGelu",
        "QOrderedLayerNormalization",
        "QOrderedLongformerAttention",
        "QOrderedMatMul",
        "QuantizeWithOrder",
        "RMSNormRotary",
        "ReduceSumInteger",
        "RelativePositionBias",
        "RemovePadding",
        "RestorePadding",
        "Rfft",
        "RouterGateUpProj",
        "SparseAttentionIndexer",
        "SparsePagedAttention",
        "SpeculativePrefixCommit",
        "TorchEmbedding",
    ),
    _GPU,
)
