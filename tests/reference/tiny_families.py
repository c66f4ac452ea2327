#!/usr/bin/env python3
"""Tiny models of random weights as transformers saves them, their statistics, and the errors that indicators shall find.

    python3 tests/reference/tiny_families.py FOLDER

For every family: FOLDER/{family}/ with config.json, safetensors and a tokenizer, FOLDER/{family}.statistics.safetensors
by activation_statistics.py, FOLDER/{family}.loss.json by loss_increase.py, and in FOLDER/expected.json by family, layer
and bitwidth the squared error of the layer's outputs for a token under rounding to nearest, a scale per channel: what
kind "measured" is. Exit status 77: a package is missing.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import decoder

try:
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import activation_statistics
import loss_increase

BITWIDTHS = [3, 4, 8]
VOCABULARY = 96  # printable ASCII, each character a token

CONFIGS = {
    "opt": transformers.OPTConfig(
        vocab_size=VOCABULARY, hidden_size=32, word_embed_proj_dim=32, ffn_dim=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=128),
    "bloom": transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, seq_length=128),
    "gpt2": transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128, n_inner=64, bos_token_id=1,
        eos_token_id=2),
    "qwen2": transformers.Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128),
}


def tokenizer():
    """One token for each printable character."""
    characters = [chr(32 + i) for i in range(VOCABULARY - 1)]
    vocabulary = {"<unk>": 0} | {character: i + 1 for i, character in enumerate(characters)}
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=found, unk_token="<unk>")


def save(family, folder):
    """Weights large enough that layers differ from noise, and norms that are not all 1."""
    torch.manual_seed(len(family))
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[family])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def run(script, arguments):
    sys.argv = [script.__file__, *map(str, arguments)]
    script.main()


def output_errors(folder, text):
    """[layer][bitwidth], from what each matrix reads: |X (W - Q)^T|^2 / tokens, summed over the matrices."""
    model, own = decoder.load(folder)
    batches = decoder.samples(own, text, 4, 64)
    errors = {}

    def add(layer, module, given):
        weight = module.weight.data.T if type(module).__name__ == "Conv1D" else module.weight.data
        x = given[0].reshape(-1, given[0].shape[-1]).double()
        for i, bitwidth in enumerate(BITWIDTHS):
            rounded = loss_increase.round_to_nearest(torch, weight, bitwidth, "channel", 0)
            errors.setdefault(layer, [0.0] * len(BITWIDTHS))[i] += (
                (x @ (weight - rounded).double().T).square().sum().item() / batches.numel())

    for layer, _, module in decoder.linears(model):
        module.register_forward_pre_hook(lambda own, given, layer=layer: add(layer, own, given))
    with torch.no_grad():
        for batch in batches:
            model(batch[None])
    return [errors[layer] for layer in sorted(errors)]


def main():
    out = Path(sys.argv[1])
    text = out / "text.txt"
    text.write_text((Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="ascii", errors="ignore"))
    expected = {}
    for family in CONFIGS:
        save(family, out / family)
        common = [out / family, "--text", text, "--samples", 4, "--tokens", 64]
        run(activation_statistics, [*common, "--hessian", "--out", out / f"{family}.statistics.safetensors"])
        run(loss_increase, [*common, "--bitwidths", "3,4,8", "--out", out / f"{family}.loss.json"])
        expected[family] = output_errors(out / family, text)
    (out / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
