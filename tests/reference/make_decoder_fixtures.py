#!/usr/bin/env python3
"""Writes decoders/: tiny decoder models of random weights and their logits by Hugging Face transformers.

    pip install torch==2.9.1 transformers==4.57.6 tokenizers==0.22.2 safetensors==0.8.0 numpy==2.3.5
    python3 tests/reference/make_decoder_fixtures.py tests/reference/decoders [NAME...]

With transformers 5.24.0 it makes those of the families that 4.57.6 has not, into the same folder.
The files are kept; the tests read them without Python. Attention is transformers' eager one (Falcon with ALiBi: sdpa), everything is float32.
Weights are seeded by the name of the model and large enough that every part matters, which is checked: logits must move
when a tensor is shifted, or a key of the configuration is changed (decoder_families.py).
"""

import copy
import pathlib
import shutil
import sys
import zlib

import safetensors.torch
import torch
import transformers
from decoder_families import FAMILIES, NEWER, VOCABULARY

try:
    from transformers.modeling_utils import no_init_weights
except ImportError:  # transformers 5
    from transformers.initialization import no_init_weights

VERSIONS = {"transformers": "5.24.0" if NEWER else "4.57.6", "torch": "2.9.1"}
LENGTHS = [21, 9]
LEAST_CHANGE = 1e-2  # of a logit, where logits are of order 1
LEAST_MARGIN = 1e-4  # between a router's last chosen and first refused expert: no implementation may choose another

MAKERS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def fail(message):
    sys.exit(f"make_decoder_fixtures.py: {message}")


def check_versions():
    for module, version in VERSIONS.items():
        found = sys.modules[module].__version__.split("+")[0]
        if found != version:
            fail(f"{module} is {found}, the fixtures are made by {version}")


def attention_of(config):
    """Eager, but for Falcon with ALiBi, whose eager attention adds the bias twice: once with the mask."""
    return "sdpa" if getattr(config, "alibi", False) else "eager"


def made_by():
    return ", ".join(f"{module} {version}" for module, version in VERSIONS.items())


def new_model(config, state=None):
    """The model in float32; `state` as of another model of the same tensors."""
    config = copy.deepcopy(config)
    config._attn_implementation = attention_of(config)
    # Without initial weights: StableLM's fail for norms that have no bias, and all are set later.
    with no_init_weights():
        model = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=attention_of(config), dtype=torch.float32)
    if state is not None:
        model.load_state_dict(state)
    return model.eval()


def randomise(model, dtype, generator):
    """Norm weights away from 1, biases away from 0, matrices of a scale at which attention is far from uniform."""
    # Norms whose weights are kept less 1.
    gemma = model.config.model_type.startswith("gemma") and model.config.model_type not in ("gemma3n_text", "gemma4_text")
    next_norm = "Qwen3NextRMSNorm"
    with torch.no_grad():
        for module in model.modules():
            norm = "Norm" in type(module).__name__
            for name, parameter in module.named_parameters(recurse=False):
                noise = torch.randn(parameter.shape, generator=generator)
                if norm and name == "weight":
                    value = (0 if gemma or type(module).__name__ == next_norm else 1) + 0.3 * noise
                elif isinstance(module, torch.nn.Embedding):
                    value = (0.2 if gemma else 0.5) * noise
                else:
                    value = 0.2 * noise
                parameter.copy_(value.to(dtype).float())
            for key, buffer in module.named_buffers(recurse=False):
                if key in ("e_score_correction_bias", "expert_bias"):  # kept in the file, in float32
                    buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
                if key == "layer_scalar":
                    buffer.copy_((1 + 0.3 * torch.randn(buffer.shape, generator=generator)).to(dtype).float())
    model.tie_weights()


def logits_of(model, prompts):
    with torch.no_grad():
        return [model(ids[None], use_cache=False).logits[0].float() for ids in prompts]


def difference(one, other):
    return max((a - b).abs().max().item() for a, b in zip(one, other))


def check_tensors(name, model, prompts, expected):
    """Shifting the rows of any tensor moves the logits. Keys' biases without rope do not: softmax forgets them."""
    seen = set()
    for key, parameter in model.named_parameters():
        if parameter.data_ptr() in seen or (key.endswith("k_proj.bias") and model.config.model_type == "opt"):
            continue
        seen.add(parameter.data_ptr())
        kept = parameter.data.clone()
        parameter.data.copy_(kept.roll(1, 0) if kept.shape[0] > 1 else -kept)
        moved = difference(logits_of(model, prompts), expected)
        parameter.data.copy_(kept)
        if not moved > LEAST_CHANGE:
            fail(f"{name}: the logits move by {moved:.2g} where {key} is shifted; the fixture would not see it")


def check_changes(name, model, prompts, expected):
    smallest = float("inf")
    for change in FAMILIES[name].changes:
        config = model.config.to_dict() | change
        other = new_model(type(model.config).from_dict(config), model.state_dict())
        moved = difference(logits_of(other, prompts), expected)
        smallest = min(smallest, moved)
        if not moved > LEAST_CHANGE:
            fail(f"{name}: the logits move by {moved:.2g} under {change}; the fixture would not see it")
    return smallest


def ranking_of(module, given, found):
    """What a router sorts experts by; modules that answer with their choice are asked again."""
    if torch.is_tensor(found):
        return found
    scores = torch.nn.functional.linear(given[0].flatten(0, -2), module.weight, getattr(module, "bias", None))
    correction = getattr(module, "e_score_correction_bias", given[1] if len(given) > 1 else None)
    if correction is not None:
        scores = scores.sigmoid() + correction
    groups = getattr(module, "num_group", None) or 1
    if groups == 1 or getattr(module, "topk_method", "") == "greedy":
        return scores
    grouped = scores.unflatten(-1, (groups, -1))
    of_group = grouped.amax(-1) if correction is None else grouped.topk(2).values.sum(-1)
    ranked = of_group.sort(-1, descending=True).values
    margin = (ranked[:, module.topk_group - 1] - ranked[:, module.topk_group]).min().item()
    if not margin > LEAST_MARGIN:
        fail(f"a group of experts is chosen by a margin of {margin:.2g}; take another seed")
    chosen = of_group >= ranked[:, module.topk_group - 1:module.topk_group]
    return grouped.masked_fill(~chosen[..., None], float("-inf")).flatten(-2)


def check_routers(name, model, prompts):
    config = model.config
    experts, chosen = (next((getattr(config, key) for key in keys if hasattr(config, key)), None) for keys in [
        ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"],
        ["num_experts_per_tok", "moe_k", "top_k_experts"]])
    if "moe" not in getattr(config, "layers_block_type", ["moe"]):  # a class that has them, none of whose layers does
        experts = None

    def check(module, given, found):
        scores = ranking_of(module, given, found)
        ranked = scores.reshape(-1, scores.shape[-1]).sort(-1, descending=True).values
        margin = (ranked[:, chosen - 1] - ranked[:, chosen]).min().item()
        if not margin > LEAST_MARGIN:
            fail(f"{name}: an expert is chosen by a margin of {margin:.2g}; take another seed")

    handles = [module.register_forward_hook(check) for key, module in model.named_modules()
               if experts and key.endswith((".gate", ".router", ".router.layer", ".router.proj"))
               and getattr(module, "weight", torch.empty(0)).shape[:1] == (experts,)]
    if experts and not handles:
        fail(f"{name}: no router of {experts} experts is found")
    logits_of(model, prompts)
    for handle in handles:
        handle.remove()


def prompts_of(generator):
    return [torch.randint(3, VOCABULARY, (length,), generator=generator) for length in LENGTHS]


def write_expected(path, prompts, logits):
    tensors = {f"input_ids.{i}": ids for i, ids in enumerate(prompts)}
    tensors |= {f"logits.{i}": rows.contiguous() for i, rows in enumerate(logits)}
    # One key: safetensors writes several in an order that differs between runs.
    safetensors.torch.save_file(tensors, path, {"made_by": made_by()})


def make(name, config, dtype="float32"):
    """(model, prompts, logits): the same in every run on a machine, on another to rounding."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    model = new_model(config)
    randomise(model, MAKERS[dtype], generator)
    prompts = prompts_of(generator)
    return model, prompts, logits_of(model, prompts)


def write(name, folder):
    family = FAMILIES[name]
    model, prompts, logits = make(name, family.config, family.dtype)
    check_tensors(name, model, prompts, logits)
    smallest = check_changes(name, model, prompts, logits)
    check_routers(name, model, prompts)
    shutil.rmtree(folder, ignore_errors=True)
    stored = copy.deepcopy(model).to(MAKERS[family.dtype])
    stored.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_expected(folder / "expected.safetensors", prompts, logits)
    again = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=attention_of(model.config)).eval()
    if (moved := difference(logits_of(again, prompts), logits)) > 1e-5:
        fail(f"{name}: the files read back give logits that differ by {moved:.2g}")
    size = sum(file.stat().st_size for file in folder.iterdir())
    spread = torch.cat(logits).std().item()
    print(f"{name:16} {size / 1e3:5.0f} kB, logits of std {spread:.2f}, smallest change {smallest:.2g}")


def write_table(path, mark, head, rows):
    """The table of README.md between its marks."""
    table = "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
    before, found, rest = path.read_text().partition(f"<!-- {mark} -->\n")
    if not found:
        fail(f"{path} has no mark <!-- {mark} -->")
    after = rest.partition("<!-- end -->\n")[2]
    path.write_text(f"{before}{found}{table}\n<!-- end -->\n{after}")


def main(folder, *names):
    check_versions()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    folder = pathlib.Path(folder)
    for name in names or FAMILIES:
        write(name, folder / name)
    rows = [[f"`{name}`", family.config.model_type, family.exercises] for name, family in FAMILIES.items()]
    write_table(folder / "README.md", "newer" if NEWER else "models", ["folder", "model_type", "exercises"], rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
