"""Writes state.bin, a state dictionary as torch.save writes it: what the reader of PyTorch's files is held against.

    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python tests/reference/torch_files.py tests/reference

The file is kept; the tests read it without Python.
"""

import collections
import pathlib
import sys

import torch


def main(folder):
    rows = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    state = collections.OrderedDict()
    state["rows"] = torch.nn.Parameter(rows)
    state["tied"] = rows  # the same storage
    state["last"] = rows[2:]  # a part of it
    state["half"] = torch.tensor([0.5, -2.0], dtype=torch.float16)
    state["brain"] = torch.tensor([[1.5], [-3.0]], dtype=torch.bfloat16)
    state["count"] = torch.tensor(7)  # int64, without dimensions
    state._metadata = {"": {"version": 1}}
    torch.save(state, folder / "state.bin")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
