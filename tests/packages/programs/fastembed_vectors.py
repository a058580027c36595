"""Vectors of sentences by fastembed, of a model and a tokenizer that small_bert.py writes."""

import tempfile

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from small_bert import HIDDEN, TEXTS, write_folder

folder = tempfile.mkdtemp()
write_folder(folder)
TextEmbedding.add_custom_model(
    model="local/small-bert",
    pooling=PoolingType.MEAN,
    normalization=True,
    sources=ModelSource(hf="local/small-bert"),
    dim=HIDDEN,
    model_file="model.onnx",
)
model = TextEmbedding("local/small-bert", specific_model_path=folder)


def answer():
    batches = [list(model.embed(TEXTS, batch_size=size)) for size in (1, 6)]
    return [[vector.astype(float).tolist() for vector in batch] for batch in batches]
