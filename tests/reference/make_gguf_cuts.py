#!/usr/bin/env python3
"""Writes tokenizers/cut_NAME/: vocabularies in GGUF that llama.cpp cuts in ways that no other fixture has.

    pip install tokenizers==0.23.3 gguf==0.19.0 numpy
    python3 tests/reference/make_gguf_cuts.py tests/reference/tokenizers

Each is a small byte-level BPE of Hugging Face's tokenizers with the pre-tokenizer of the models that llama.cpp knows by
tokenizer.ggml.pre, as their tokenizer.json (Kimi K2's: its tiktoken pattern) writes it. The tests read the files without
Python.
"""

import json
import pathlib
import sys

from make_tokenizer_fixtures import INVALID, TEXTS, as_dict, write_byte_level_gguf
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = (r"[\p{L" + first + r"}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]" for first in ("u", "l"))
LOWER = LOWER.replace(r"\p{Lt}", "")
LEAD, ENDS = r"[^\r\n\p{L}\p{N}]?", r"\s*[\r\n]+|\s+(?!\S)|\s+"
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
CUTS = {
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                    r" ?[\p{P}\p{S}]+[\r\n]*|" + ENDS],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", None],
    "bailingmoe": [rf"'(?i:[sdmt]|ll|ve|re)|{LEAD}+\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]++[\r\n]*|"
                   r"\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [rf"{CASE}|{LEAD}\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|" + ENDS],
    "kimi-k2": [rf"[\p{{Han}}]+|{LEAD}{UPPER}*{LOWER}+{CASE}?|{LEAD}{UPPER}+{LOWER}*{CASE}?|\p{{N}}{{1,3}}|"
                r" ?[^\s\p{L}\p{N}]+[\r\n]*|" + ENDS],
    "viking": [BLOOM, None],
}
MORE = ["中文和English混合，第12345章。カタカナ と ひらがな", "x=1234567;\n\n\tif (a_b<=c) {return 'it''s';}\r\n",
        "DON'T don't It'LL we'Ve HTMLParser2000", "한국어 문장 3개", "「引用」 ÄÖÜ äöü ǅ ʰx é"]


def pre_tokenizer(cuts):
    digits = pre_tokenizers.Digits(individual_digits=True)
    splits = [pre_tokenizers.Split(Regex(cut), "isolated") if cut else digits for cut in cuts]
    return pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def main():
    out = pathlib.Path(sys.argv[1])
    texts = TEXTS + [text.decode("utf-8", "replace") for text in INVALID]
    for name, cuts in CUTS.items():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizer(cuts)
        trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<a>", "<b>", "<c>"], show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        tokenizer.train_from_iterator(TEXTS + MORE * 4, trainer)
        tokenizer.decoder = decoders.ByteLevel()
        target = out / ("cut_" + name.replace("-", "_"))
        target.mkdir(parents=True, exist_ok=True)
        write_byte_level_gguf(target / "vocabulary.gguf", as_dict(tokenizer), name)
        ids = [tokenizer.encode(text).ids for text in texts]
        more = {text: tokenizer.encode(text).ids for text in MORE}
        answers = {"ids": ids, "plain": [None] * len(ids), "skipped": [None] * len(ids), "more": more,
                   "decoded": [tokenizer.decode(one, skip_special_tokens=False) for one in ids]}
        (target / "answers.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")
        print(name, tokenizer.get_vocab_size(), sum(map(len, ids)))


if __name__ == "__main__":
    main()
