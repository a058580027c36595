"""Exports a small encoder with BERT's layer structure from PyTorch, by both of its exporters.

    pip install torch onnxscript onnx
    python tests/support/models/export_encoder.py            # rewrites encoder_torch_*.onnx here

The files it writes are committed, so no test needs torch. `encoders.bert` builds the same graphs
without torch and at any size; `test_encoders.py` compares the two node by node.

The module follows the BERT paper (Devlin et al. 2018, arXiv:1810.04805) and the usual ways of
writing it in PyTorch: sizes read from the tensors, views built from them, and either attention in
plain operations with an additive mask ("eager") or `scaled_dot_product_attention` with the mask
expanded to [batch, 1, sequence, sequence] and filled with the lowest float ("sdpa").
"""

from __future__ import annotations

import math
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

VOCAB, POSITIONS, HIDDEN, HEADS, INTERMEDIATE = 50, 40, 32, 4, 64
HERE = Path(__file__).parent


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCAB, HIDDEN)
        self.position_embeddings = nn.Embedding(POSITIONS, HIDDEN)
        self.token_type_embeddings = nn.Embedding(2, HIDDEN)
        self.LayerNorm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(POSITIONS).expand((1, -1)))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        position_ids = self.position_ids[:, : input_ids.size(1)]
        words = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        return self.LayerNorm(words + self.position_embeddings(position_ids))


class SelfAttention(nn.Module):
    def __init__(self, sdpa: bool) -> None:
        super().__init__()
        self.sdpa = sdpa
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(x.size()[:-1] + (HEADS, HIDDEN // HEADS)).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.query(x), self.heads(self.key(x)), self.heads(self.value(x))
        query = self.heads(query)
        if self.sdpa:
            context = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        else:
            scores = torch.matmul(query, key.transpose(-1, -2))
            scores = scores / math.sqrt(HIDDEN // HEADS) + mask
            context = torch.matmul(nn.functional.softmax(scores, dim=-1), value)
        context = context.permute(0, 2, 1, 3).contiguous()
        return context.view(context.size()[:-2] + (HIDDEN,))


class Output(nn.Module):
    """The dense layer, residual and norm that end both the attention and the feed-forward half."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, HIDDEN)
        self.LayerNorm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):
    def __init__(self, sdpa: bool) -> None:
        super().__init__()
        self.self = SelfAttention(sdpa)
        self.output = Output(HIDDEN)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(HIDDEN, INTERMEDIATE)
        self.intermediate_act_fn = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return self.intermediate_act_fn(self.dense(x))


class Layer(nn.Module):
    def __init__(self, sdpa: bool) -> None:
        super().__init__()
        self.attention = Attention(sdpa)
        self.intermediate = Intermediate()
        self.output = Output(INTERMEDIATE)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):
    def __init__(self, layers: int, sdpa: bool) -> None:
        super().__init__()
        self.layer = nn.ModuleList([Layer(sdpa) for _ in range(layers)])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Pooler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(HIDDEN, HIDDEN)
        self.activation = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.dense(x[:, 0]))


def additive_mask(mask: Tensor) -> Tensor:
    """0 where attended, -10000 elsewhere: [batch, 1, 1, sequence] of a [batch, sequence] mask."""
    return (1.0 - mask[:, None, None, :].to(dtype=torch.float32)) * -10000.0


def filled_mask(mask: Tensor) -> Tensor:
    """0 where attended and the lowest float elsewhere: [batch, 1, sequence, sequence]."""
    batch, sequence = mask.size()
    expanded = mask[:, None, None, :].expand(batch, 1, sequence, sequence).to(torch.float32)
    inverted = 1.0 - expanded
    return inverted.masked_fill(inverted.to(torch.bool), torch.finfo(torch.float32).min)


class Bert(nn.Module):
    def __init__(self, layers: int, sdpa: bool) -> None:
        super().__init__()
        self.sdpa = sdpa
        self.embeddings = Embeddings()
        self.encoder = Encoder(layers, sdpa)
        self.pooler = Pooler()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        mask = filled_mask(attention_mask) if self.sdpa else additive_mask(attention_mask)
        x = self.encoder(self.embeddings(input_ids, token_type_ids), mask)
        return x, self.pooler(x)


def trained(layers: int, sdpa: bool) -> Bert:
    """A model whose norms and biases are no longer what they are initialised to.

    One norm keeps the values of another: exporters then store them once, behind an Identity.
    """
    torch.manual_seed(0)
    model = Bert(layers, sdpa).eval()
    for name, parameter in model.named_parameters():
        if "LayerNorm" in name:
            nn.init.normal_(parameter, mean=1.0 if name.endswith("weight") else 0.0, std=0.2)
    first = model.encoder.layer[0]
    first.output.LayerNorm.load_state_dict(first.attention.output.LayerNorm.state_dict())
    return model


INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
OUTPUTS = ["last_hidden_state", "pooler_output"]


def example(batch: int, sequence: int) -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.arange(batch * sequence).reshape(batch, sequence) % VOCAB
    mask = torch.ones_like(ids)
    mask[-1, sequence // 2 :] = 0
    return ids, mask, (ids > VOCAB // 2).long()


def export_legacy(model: nn.Module, path: Path, opset: int = 14) -> None:
    """By tracing to TorchScript (`dynamo=False`): what most published models came from."""
    axes = {0: "batch", 1: "sequence"}
    torch.onnx.export(
        model,
        example(2, 7),
        str(path),
        input_names=INPUTS,
        output_names=OUTPUTS,
        dynamic_axes=dict.fromkeys([*INPUTS, OUTPUTS[0]], axes) | {OUTPUTS[1]: {0: "batch"}},
        opset_version=opset,
        dynamo=False,
    )


def export_dynamo(model: nn.Module, path: Path, opset: int = 18) -> None:
    """By torch.export (`dynamo=True`): the default since PyTorch 2.9."""
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=POSITIONS)}
    torch.onnx.export(
        model,
        example(2, 7),
        str(path),
        input_names=INPUTS,
        output_names=OUTPUTS,
        dynamic_shapes=(axes, axes, axes),
        opset_version=opset,
        dynamo=True,
        external_data=False,
    )


def strip(path: Path) -> None:
    """Drops what says where the file was made (stack traces) and what only makes it longer."""
    model = onnx.load(path)
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.metadata_props[:]
    model.graph.doc_string = ""
    onnx.save(model, path)


def main() -> None:
    for sdpa, suffix, layers in ((False, "", 2), (True, "_sdpa", 1)):
        for name, export in (("legacy", export_legacy), ("dynamo", export_dynamo)):
            path = HERE / f"encoder_torch_{name}{suffix}.onnx"
            export(trained(layers, sdpa), path)
            strip(path)
            model = onnx.load(path)
            onnx.checker.check_model(model, full_check=True)
            print(f"{path.name}: {path.stat().st_size} bytes, {len(model.graph.node)} nodes")


if __name__ == "__main__":
    main()
