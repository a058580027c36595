"""Boxes by nudenet of a drawing, and a part of its model's output."""

import cv2
import numpy as np
from nudenet import NudeDetector
from nudenet.nudenet import _read_image

image = np.full((480, 360, 3), (140, 170, 220), np.uint8)
cv2.ellipse(image, (180, 110), (60, 80), 0, 0, 360, (120, 150, 210), -1)
cv2.circle(image, (158, 95), 8, (40, 40, 40), -1)
cv2.circle(image, (202, 95), 8, (40, 40, 40), -1)
cv2.ellipse(image, (180, 140), (22, 8), 0, 0, 180, (60, 60, 160), -1)
cv2.rectangle(image, (120, 190), (240, 470), (130, 160, 215), -1)
noise = np.random.default_rng(0).normal(0, 6, image.shape)
image = np.clip(image + noise, 0, 255).astype(np.uint8)
detector = NudeDetector()


def answer():
    boxes = [
        [f["class"], float(f["score"]), [int(v) for v in f["box"]]] for f in detector.detect(image)
    ]
    feeds = {detector.input_name: _read_image(image)[0]}
    (scores,) = detector.onnx_session.run(None, feeds)
    return [boxes, scores[0, 4:, ::37].astype(float).ravel().tolist()]
