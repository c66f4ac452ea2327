"""Writes blocks.gguf and blocks.safetensors: tensors in blocks of ggml, and their numbers as the `gguf` package has them.

    python3 -m venv venv && venv/bin/pip install gguf numpy safetensors
    venv/bin/python tests/reference/gguf_blocks.py tests/reference

The files are kept; the tests read them without Python.
"""

import pathlib
import sys

import gguf
import numpy
import safetensors.numpy

ROWS, COLUMNS = 3, 512
READ = ["F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K"]
LISTED = ["Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K"]
# Where the 16-bit scales of a block lie: random bytes there would often be NaN.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}


def blocks(random, name):
    kind = gguf.GGMLQuantizationType[name]
    if name == "F16":
        return random.normal(size=(ROWS, COLUMNS)).astype(numpy.float16)
    size, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * COLUMNS // size
    if name == "BF16":
        high = random.normal(size=(ROWS, COLUMNS)).astype(numpy.float32).view(numpy.uint32) >> 16
        return high.astype(numpy.uint16).view(numpy.uint8).reshape(ROWS, -1)
    data = random.integers(0, 256, size=(count, num_bytes), dtype=numpy.uint8)
    for at in SCALES.get(name, []):
        scales = random.normal(scale=0.05, size=count).astype(numpy.float16)
        data[:, at : at + 2] = scales.view(numpy.uint8).reshape(count, 2)
    return data.reshape(ROWS, -1)


def main(folder):
    random = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(folder / "blocks.gguf", "llama")
    writer.add_array("numbers", [1, 2, 3])
    expected = {}
    for name in READ + LISTED:
        kind = gguf.GGMLQuantizationType[name]
        data = blocks(random, name)
        raw = None if name == "F16" else kind
        writer.add_tensor(name, data, raw_dtype=raw)
        if name in READ:
            expected[name] = gguf.quants.dequantize(data, kind).astype(numpy.float32).reshape(ROWS, COLUMNS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    safetensors.numpy.save_file(expected, folder / "blocks.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
