#!/usr/bin/env python3
"""Writes smollm2.safetensors: what transformers makes of SmolLM2-135M-Instruct in blocks of Q4_1, in float32.

    pip install what make_decoder_fixtures.py and make_decoder_ggufs.py name
    python3 tests/reference/make_smollm2_reference.py MODEL.gguf TEXT OUT.safetensors

The model is that of scripts/fetch_smollm2.sh, the text the test part of WikiText-2. Of one pass over its first 2,048
tokens: `input_ids` I32 [2048]; `losses` F32 [2047], -log p of each next token in nats; `mean_loss` F32 [1], their mean;
at every fourth position (`positions` I32 [512]) the likeliest next tokens, `top_ids` I32 [512, 64] and
`top_log_probabilities` F32 [512, 64], and `rest_log_probability` F32 [512], the log of what all others have together.
The divergence sum p (log p - log q) over these 64 and the rest as one outcome never exceeds that over all tokens, and
is close to it. `prompt.N` and `continuation.N` I32: the greedy continuation by 32 tokens, whatever they are, and
`margins.N` F32 [32], by how much the logit of each chosen token exceeds the next one's.
"""

import pathlib
import sys

import make_decoder_fixtures as fixtures
import safetensors.torch
import torch
import transformers

NUM_TOKENS, EVERY, TOP, NUM_NEW = 2048, 4, 64, 32
PROMPTS = ["The capital of France is", "Once upon a time, in a small village by the sea, there lived"]


def load(path):
    more = {"gguf_file": path.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, dtype=torch.float32, attn_implementation="eager", **more)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(path.parent, **more)


def over_text(model, ids):
    log_p = model(ids[None], use_cache=False).logits[0].log_softmax(-1)
    positions = torch.arange(0, NUM_TOKENS, EVERY)
    top, top_ids = log_p[positions].topk(TOP)
    rest = log_p[positions].double().scatter(1, top_ids, -torch.inf).logsumexp(-1)
    losses = -log_p[:-1].gather(1, ids[1:, None])[:, 0]
    return {"input_ids": ids.int(), "positions": positions.int(), "top_ids": top_ids.int(),
            "top_log_probabilities": top, "rest_log_probability": rest.float(), "losses": losses,
            "mean_loss": losses.double().mean().float()[None]}


def greedy(model, ids):
    """(the next tokens, margins), each by a pass over all before it: no cache takes part."""
    chosen, margins = [], []
    for _ in range(NUM_NEW):
        two = model(torch.tensor([[*ids, *chosen]]), use_cache=False).logits[0, -1].topk(2)
        chosen.append(two.indices[0].item())
        margins.append((two.values[0] - two.values[1]).item())
    return torch.tensor(chosen).int(), torch.tensor(margins)


def main(model_path, text_path, out):
    fixtures.check_versions()
    torch.set_num_threads(1)
    model, tokenizer = load(pathlib.Path(model_path))
    text = pathlib.Path(text_path).read_text(encoding="utf-8")[: 10 * NUM_TOKENS]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if len(ids) < NUM_TOKENS:
        fixtures.fail(f"{text_path} has {len(ids)} tokens, {NUM_TOKENS} are needed")
    with torch.no_grad():
        found = over_text(model, torch.tensor(ids[:NUM_TOKENS]))
        for i, prompt in enumerate(PROMPTS):
            ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
            found[f"prompt.{i}"] = torch.tensor(ids).int()
            found[f"continuation.{i}"], found[f"margins.{i}"] = greedy(model, ids)
            print(f"{prompt!r} -> {tokenizer.decode(found[f'continuation.{i}'])!r}, "
                  f"least margin {found[f'margins.{i}'].min():.3g}")
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in found.items()}, out,
                                {"made_by": fixtures.made_by()})
    print(f"mean loss {found['mean_loss'].item():.6f} nats, outside of the top {TOP}: "
          f"{found['rest_log_probability'].exp().mean():.3f} of the probability")


if __name__ == "__main__":
    main(*sys.argv[1:])
