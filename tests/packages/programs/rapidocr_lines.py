"""Lines of text, their corners and scores by rapidocr-onnxruntime."""

import cv2
import numpy as np
from rapidocr_onnxruntime import RapidOCR

image = np.full((300, 520, 3), 255, np.uint8)
for y, text in ((70, "Hello World 2026"), (150, "graph compiler"), (240, "x86 AVX2 kernels")):
    cv2.putText(image, text, (30, y), cv2.FONT_HERSHEY_SIMPLEX, 1.3, (20, 20, 20), 2, cv2.LINE_AA)
reader = RapidOCR()


def answer():
    lines, _ = reader(image)
    return [[np.rint(c).astype(int).tolist(), t, float(s)] for c, t, s in lines]
