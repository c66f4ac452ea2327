#!/usr/bin/env python3
"""Tiny models of random weights as transformers saves them, and what the engine's calibration and indicators shall find.

    python3 tests/reference/tiny_families.py FOLDER

For every family: FOLDER/{family}/ with config.json, safetensors and a tokenizer, and in FOLDER/expected.json by family,
layer and bitwidth, under rounding to nearest with a scale per channel, `output_error`, the squared error of the layer's
outputs for a token: what kind "measured" is; and `divergence`, how far the predictions move when that layer alone is
rounded: what kind "divergence" is. The text is FOLDER/text.txt, 4 pieces of 64 tokens.
Exit status 77: a package is missing.
"""

import json
import sys
from pathlib import Path

try:
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import transformers_decoder as decoder

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


def matrix_of(module):
    """[out, in], however the module stores it."""
    return module.weight.data.T if type(module).__name__ == "Conv1D" else module.weight.data


def round_to_nearest(weight, bitwidth):
    """A copy with one symmetric scale per row."""
    most = 2 ** (bitwidth - 1) - 1
    largest = weight.abs().amax(1, keepdim=True)
    scale = torch.where(largest > 0, largest / most, torch.ones_like(largest))
    return torch.clamp(torch.round(weight / scale), -most, most) * scale


def output_errors(model, batches):
    """[layer][bitwidth], from what each matrix reads: |X (W - Q)^T|^2 / tokens, summed over the matrices."""
    errors = {}

    def add(layer, module, given):
        weight = matrix_of(module)
        x = given[0].reshape(-1, given[0].shape[-1]).double()
        for i, bitwidth in enumerate(BITWIDTHS):
            rounded = round_to_nearest(weight, bitwidth)
            errors.setdefault(layer, [0.0] * len(BITWIDTHS))[i] += (
                (x @ (weight - rounded).double().T).square().sum().item() / batches.numel())

    handles = [module.register_forward_pre_hook(lambda own, given, layer=layer: add(layer, own, given))
               for layer, _, module in decoder.linears(model)]
    with torch.no_grad():
        for batch in batches:
            model(batch[None])
    for handle in handles:
        handle.remove()
    return [errors[layer] for layer in sorted(errors)]


def log_probabilities(model, batches):
    """[tokens, vocabulary], of what predicts a token of the text."""
    with torch.no_grad():
        return torch.log_softmax(model(batches).logits[:, :-1].flatten(0, 1).double(), -1)


def divergences(model, batches):
    """[layer][bitwidth], KL(as it is || one layer rounded), mean over tokens (nats)."""
    base, modules = log_probabilities(model, batches), {}
    for layer, _, module in decoder.linears(model):
        modules.setdefault(layer, []).append(module)
    found = []
    for layer in sorted(modules):
        found.append([])
        for bitwidth in BITWIDTHS:
            kept = [module.weight.data for module in modules[layer]]
            for module in modules[layer]:
                rounded = round_to_nearest(matrix_of(module), bitwidth)
                module.weight.data = rounded.T if type(module).__name__ == "Conv1D" else rounded
            found[-1].append((base.exp() * (base - log_probabilities(model, batches))).sum(-1).mean().item())
            for module, weight in zip(modules[layer], kept):
                module.weight.data = weight
    return found


def main():
    out = Path(sys.argv[1])
    text = out / "text.txt"
    text.write_text((Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="ascii", errors="ignore"))
    expected = {}
    for family in CONFIGS:
        save(family, out / family)
        model, own = decoder.load(out / family)
        batches = decoder.samples(own, text, 4, 64)
        expected[family] = {"output_error": output_errors(model, batches),
                            "divergence": divergences(model, batches)}
    (out / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
