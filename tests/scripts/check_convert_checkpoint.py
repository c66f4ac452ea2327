#!/usr/bin/env python3
"""scripts/convert_checkpoint.py on folders as torch writes them: one file, shards, tied and turned tensors, and a pickle
that runs code. TESSERA_PYTHON names an interpreter that has torch and safetensors. Exit status 77: it has not."""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "convert_checkpoint.py"

python = os.environ.get("TESSERA_PYTHON", sys.executable)
if python != sys.executable and "TESSERA_PYTHON_RUNS" not in os.environ:
    os.execve(python, [python, __file__], {**os.environ, "TESSERA_PYTHON_RUNS": "1"})
try:
    import torch
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Hostile:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def convert(source, out, *options):
    command = [sys.executable, SCRIPT, source, out, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def expect_same(folder, tensors):
    stored = {}
    for path in folder.glob("*.safetensors"):
        stored.update(load_file(path))
    assert stored.keys() == tensors.keys(), stored.keys() ^ tensors.keys()
    assert all(torch.equal(stored[name], tensors[name]) for name in tensors)


def expect_refused(run, *parts):
    assert run.returncode == 1, run
    assert all(part in run.stderr for part in parts), run.stderr
    assert "Traceback" not in run.stderr and "Warning" not in run.stderr, run.stderr


def main(root):
    tensors = {f"layers.{i}.weight": torch.randn(8, 6).bfloat16() for i in range(4)}
    tensors["turned.weight"] = torch.randn(3, 5).T
    tensors["embed.weight"] = torch.randn(4, 2)
    tensors["lm_head.weight"] = tensors["embed.weight"]
    names = list(tensors)

    whole = root / "whole"
    whole.mkdir()
    torch.save(tensors, whole / "pytorch_model.bin")
    torch.save({"lr": 1}, whole / "training_args.bin")
    (whole / "config.json").write_text("{}")
    (whole / "tokenizer.json").write_text("[]")
    run = convert(whole, root / "one")
    assert run.returncode == 0, run.stderr
    expect_same(root / "one", tensors)
    assert sorted(p.name for p in (root / "one").iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    expect_refused(convert(whole, root / "one"), "holds safetensors already")

    sharded, weight_map = root / "sharded", {}
    sharded.mkdir()
    for i, part in enumerate((names[:3], names[3:]), 1):
        name = f"pytorch_model-{i:05}-of-00002.bin"
        torch.save({key: tensors[key] for key in part}, sharded / name)
        weight_map.update(dict.fromkeys(part, name))
    index = sharded / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    run = convert(sharded, root / "many", "--shard-gib", "1e-7")
    assert run.returncode == 0, run.stderr
    expect_same(root / "many", tensors)
    listed = json.loads((root / "many" / "model.safetensors.index.json").read_text())["weight_map"]
    assert listed.keys() == tensors.keys()
    index.write_text(json.dumps({"weight_map": {"a": "../whole/pytorch_model.bin"}}))
    expect_refused(convert(sharded, root / "led_out"), "not beside it")

    mark = root / "mark"
    hostile = root / "hostile"
    hostile.mkdir()
    for name, write in (("new.bin", torch.save), ("old.pt", lambda v, path: path.write_bytes(pickle.dumps(v)))):
        write({"weight": Hostile(mark)}, hostile / name)
        expect_refused(convert(hostile / name, root / "never"), name, "would run code", "not opened")
    assert not mark.exists() and not (root / "never").exists()
    (hostile / "cut.bin").write_bytes((whole / "pytorch_model.bin").read_bytes()[:1000])
    expect_refused(convert(hostile / "cut.bin", root / "never"), "cut.bin", "not opened")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
    print("convert_checkpoint.py: the same tensors, hostile files refused")
