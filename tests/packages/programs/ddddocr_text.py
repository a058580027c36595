"""Text and places of text by ddddocr."""

import cv2
import ddddocr
import numpy as np


def draw(width, height, *texts):
    image = np.full((height, width, 3), 255, np.uint8)
    for text, place, size, colour in texts:
        cv2.putText(image, text, place, cv2.FONT_HERSHEY_SIMPLEX, size, colour, 3)
    return cv2.imencode(".png", image)[1].tobytes()


readers = [ddddocr.DdddOcr(show_ad=False, beta=beta) for beta in (False, True)]
detector = ddddocr.DdddOcr(det=True, show_ad=False)


def answer():
    found = []
    for reader in readers:
        for text in ("8x4kQ", "irc23", "Hello7"):
            picture = draw(200, 64, (text, (10, 45), 1.4, (20, 60, 120)))
            found.append(reader.classification(picture))
    picture = draw(300, 200, ("A7", (40, 90), 2, (0, 0, 0)), ("k9", (180, 160), 2, (0, 0, 200)))
    found.append([[int(v) for v in box] for box in detector.detection(picture)])
    return found
