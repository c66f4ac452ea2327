#!/usr/bin/env python3
"""Writes decoders/gguf/NAME/model.gguf: decoders/NAME as convert_hf_to_gguf.py of llama.cpp files it.

    pip install what make_decoder_fixtures.py names, and a transformers that llama.cpp's conversion takes
    python3 tests/reference/make_llama_cpp_ggufs.py LLAMA_CPP tests/reference/decoders [NAME...]

LLAMA_CPP is a source tree of llama.cpp (made with that of llama_cpp_python 0.3.36, ggml 0.25.3). The logits are those
of decoders/NAME. Where GGUF has no key for something that decoders/NAME sets, the model is changed to what llama.cpp
takes without one, and its logits by transformers are written beside it.
"""

import importlib
import json
import pathlib
import pkgutil
import shutil
import subprocess
import sys
import tempfile

# Whose multipliers llama.cpp folds into matrices, which BF16 would round.
FOLDED = {"falcon_h1"}

# name: what of config.json is changed first.
MODELS = {
    "arcee": {}, "cohere": {}, "cohere_qk_norm": {}, "dots1": {}, "ernie4_5": {}, "exaone4": {}, "gemma": {}, "glm4": {},
    "glm4_5": {}, "gpt_oss": {}, "granite": {}, "granitemoe": {}, "granitemoehybrid": {}, "hunyuan_dense": {},
    "nemotron": {}, "olmo": {}, "olmo2": {}, "olmo3": {}, "olmoe": {}, "phi3": {}, "qwen3_5": {}, "qwen3_5_moe": {},
    "qwen3_next": {}, "seed_oss": {}, "starcoder2": {},
    "falcon_h1": {}, "jamba": {}, "nemotron_h": {}, "nemotron_h_moe": {},
    "deepseek_v2": {"topk_method": "greedy"},
    # llama.cpp takes mscale to be mscale_all_dim.
    "deepseek_v3": {"rope_parameters": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 0.75,
        "beta_slow": 0.25, "rope_theta": 100.0, "mscale": 0.8, "mscale_all_dim": 0.8}},
    "lfm2_moe": {"routed_scaling_factor": 1.0},
    "gpt_neox": {"rope_theta": 10000, "rotary_emb_base": 10000},
    "smollm3": {"no_rope_layers": [1, 1, 1]},
    "stablelm": {"rope_theta": 10000.0},
    "gemma4": {},
    # llama.cpp has these numbers in its code, and every fourth layer without rope.
    "llama4": {"floor_scale": 8192, "attn_scale": 0.1, "attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0],
               "layer_types": ["chunked_attention"] * 3 + ["full_attention"]},
}
# As the published files say it, which the conversion goes by; None: not at all.
PUBLISHED = {"nemotron_h": {"num_hidden_layers": 4, "hybrid_override_pattern": "M-*-", "layers_block_type": None,
                            "num_experts_per_tok": None}}
WITH_DRAFT_HEADS = {"glm4_5", "qwen3_5", "qwen3_5_moe", "qwen3_next"}  # which are left out


def convert(llama_cpp, folder, out):
    """In a process of its own: the conversion has state, and must not look for a tokenizer."""
    sys.path[:0] = [str(llama_cpp), str(llama_cpp / "gguf-py")]
    import conversion
    from conversion import base

    for module in pkgutil.iter_modules(conversion.__path__):
        importlib.import_module("conversion." + module.name)

    def set_vocab(self):
        text = self.hparams.get("text_config", self.hparams)
        size = self.hparams.get("vocab_size") or text["vocab_size"]
        self.gguf_writer.add_tokenizer_model("llama")
        self.gguf_writer.add_tokenizer_pre("default")
        self.gguf_writer.add_token_list([b"t%d" % i for i in range(size)])
        self.gguf_writer.add_token_scores([0.0] * size)
        self.gguf_writer.add_token_types([1] * size)

    def replace(kind):
        kind.set_vocab = set_vocab
        for below in kind.__subclasses__():
            replace(below)

    replace(base.TextModel)
    if out.parent.name in PUBLISHED:  # transformers would add what its class has beside
        base.ModelBase.load_hparams = staticmethod(
            lambda source, is_mistral_format: json.loads((source / "config.json").read_text()))
    import convert_hf_to_gguf

    without = ["--no-mtp"] if out.parent.name in WITH_DRAFT_HEADS else []
    sys.argv = ["convert", str(folder), "--outfile", str(out), "--outtype", "f32" if out.parent.name in FOLDED else "bf16", *without]
    convert_hf_to_gguf.main()


def changed(folder, name, changes, out):
    """A copy of the model with other configuration, and its logits."""
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder / name, out)
    config = json.loads((out / "config.json").read_text())
    config.update(changes)
    (out / "config.json").write_text(json.dumps(config, indent=2))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        out, torch_dtype=torch.float32, attn_implementation="eager").eval()
    expected = load_file(folder / name / "expected.safetensors")
    for i in (0, 1):
        with torch.no_grad():
            expected[f"logits.{i}"] = model(expected[f"input_ids.{i}"][None]).logits[0].contiguous()
    save_file(expected, out / "expected.safetensors")


def main():
    llama_cpp, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    for name in sys.argv[3:] or MODELS:
        out = root / "gguf" / name
        out.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            source = pathlib.Path(scratch) / name
            if MODELS[name]:
                changed(root, name, MODELS[name], source)
                shutil.copy(source / "expected.safetensors", out)
            else:
                shutil.copytree(root / name, source)
            config = json.loads((source / "config.json").read_text()) | PUBLISHED.get(name, {})
            config = {key: value for key, value in config.items() if value is not None or key not in PUBLISHED.get(name, {})}
            (source / "config.json").write_text(json.dumps(config, indent=2))
            # The conversion of Gemma counts its words.
            words = {"model": {"vocab": {f"t{i}": i for i in range(config["vocab_size"])}}, "added_tokens": []}
            (source / "tokenizer.json").write_text(json.dumps(words))
            subprocess.run([sys.executable, __file__, "--convert", llama_cpp, source, out / "model.gguf"], check=True)


if __name__ == "__main__":
    if sys.argv[1] == "--convert":
        convert(*(pathlib.Path(word) for word in sys.argv[2:5]))
    else:
        main()
