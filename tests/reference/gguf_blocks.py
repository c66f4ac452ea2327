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

ROWS, COLUMNS = 2, 512
READ = [
    "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ1_S",
    "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4",
    "Q1_0",
]  # fmt: skip
LISTED = ["Q8_1"]
# Where the 16-bit scales of a block lie: random bytes there would often be NaN.
SCALES = {
    "Q4_1": [0, 2], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": [], "IQ1_M": [], "Q8_K": [],
}  # fmt: skip


def halves(random, count):
    return random.normal(scale=0.05, size=count).astype(numpy.float16).view(numpy.uint8).reshape(count, 2)


# Types that llama.cpp writes and the package does not take apart.
def numbers_of(data, name, kind):
    if name not in ("Q8_K", "Q1_0"):
        return gguf.quants.dequantize(data, kind)
    rows = data.reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
    if name == "Q8_K":
        return rows[:, :4].copy().view(numpy.float32) * rows[:, 4:260].copy().view(numpy.int8).astype(numpy.float32)
    signs = numpy.unpackbits(rows[:, 2:], axis=1, bitorder="little").astype(numpy.float32) * 2 - 1
    return rows[:, :2].copy().view(numpy.float16).astype(numpy.float32) * signs


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
    for at in SCALES.get(name, [0]):
        data[:, at : at + 2] = halves(random, count)
    if name == "MXFP4":
        data[:, 0] = random.integers(110, 130, size=count)  # an exponent
    if name == "Q8_K":
        data[:, :4] = random.normal(scale=0.05, size=count).astype(numpy.float32).view(numpy.uint8).reshape(count, 4)
    if name == "IQ1_M":  # four bits of the scale in each of the last four words
        scale = halves(random, count).view(numpy.uint16).reshape(count)
        for i in range(4):
            data[:, 49 + 2 * i] = data[:, 49 + 2 * i] & 0xF | (scale >> (4 * i) & 0xF) << 4
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
            expected[name] = numbers_of(data, name, kind).astype(numpy.float32).reshape(ROWS, COLUMNS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    safetensors.numpy.save_file(expected, folder / "blocks.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
