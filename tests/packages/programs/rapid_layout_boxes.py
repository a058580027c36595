"""Regions of a drawn page by rapid-layout."""

import cv2
import numpy as np
from rapid_layout import RapidLayout

page = np.full((1100, 800, 3), 255, np.uint8)
cv2.putText(page, "A Title of a Page", (120, 90), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (0, 0, 0), 3)
for row in range(14):
    line = "words of a paragraph that fill its line 0123456789"
    cv2.putText(page, line, (60, 170 + 28 * row), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (0, 0, 0), 1)
cv2.rectangle(page, (120, 620), (680, 980), (90, 140, 60), -1)
cv2.circle(page, (400, 800), 120, (40, 60, 200), -1)
engine = RapidLayout()


def answer():
    found = engine(page)
    boxes = [[int(round(float(v))) for v in box] for box in found.boxes]
    return [boxes, list(found.class_names), [float(s) for s in found.scores]]
