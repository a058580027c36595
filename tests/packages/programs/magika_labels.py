"""Labels of files by magika."""

from magika import Magika

TEXTS = [
    b"import os\nprint(os.getcwd())\n" * 20,
    b"#include <stdio.h>\nint main(){return 0;}\n" * 10,
    b'{"a": [1,2,3]}' * 30,
    b"<html><body><p>hi</p></body></html>" * 12,
    bytes(range(256)) * 8,
    b"hello world, this is plain text. " * 20,
]
magika = Magika()


def answer():
    found = [magika.identify_bytes(text) for text in TEXTS]
    return [[str(f.output.label), float(f.score)] for f in found]
