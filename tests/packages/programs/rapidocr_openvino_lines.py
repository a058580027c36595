"""Lines of text, their corners and scores by rapidocr's OpenVINO engine, on its own models."""

import importlib.util
import pathlib

import cv2
import numpy as np
from rapidocr import EngineType, RapidOCR

(package,) = importlib.util.find_spec("rapidocr").submodule_search_locations
folder = pathlib.Path(package) / "models"
settings = {}
for part in ("det", "cls", "rec"):
    (path,) = folder.glob(f"*_{part}_*.onnx")
    settings |= {
        f"{part.title()}.engine_type": EngineType.OPENVINO,
        f"{part.title()}.model_path": str(path),
    }
image = np.full((300, 520, 3), 255, np.uint8)
for y, text in ((70, "Hello World 2026"), (150, "graph compiler"), (240, "x86 AVX2 kernels")):
    cv2.putText(image, text, (30, y), cv2.FONT_HERSHEY_SIMPLEX, 1.3, (20, 20, 20), 2, cv2.LINE_AA)
reader = RapidOCR(params=settings)


def answer():
    found = reader(image)
    lines = zip(found.boxes, found.txts, found.scores, strict=True)
    return [[np.rint(c).astype(int).tolist(), t, float(s)] for c, t, s in lines]
