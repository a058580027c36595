"""Vectors and nearest texts by chromadb's default embedder, with a model of small_bert.py."""

import tempfile
from pathlib import Path

import chromadb
import numpy as np
from chromadb.utils.embedding_functions import ONNXMiniLM_L6_V2
from small_bert import TEXTS, write_folder

ONNXMiniLM_L6_V2.DOWNLOAD_PATH = Path(tempfile.mkdtemp())
write_folder(ONNXMiniLM_L6_V2.DOWNLOAD_PATH / ONNXMiniLM_L6_V2.EXTRACTED_FOLDER_NAME)
embed = ONNXMiniLM_L6_V2()
collection = chromadb.EphemeralClient().create_collection("texts", embedding_function=embed)
collection.add(ids=[str(n) for n in range(len(TEXTS))], documents=TEXTS)


def answer():
    vectors = [np.asarray(vector).astype(float).tolist() for vector in embed(TEXTS)]
    found = collection.query(query_texts=["The cat", "a kernel of the compiler"], n_results=4)
    return [vectors, found["ids"], found["distances"]]
