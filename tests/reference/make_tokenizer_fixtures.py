"""Writes tokenizers of every family, small, and what Hugging Face's `tokenizers` and `sentencepiece` make of texts.

    python3 -m venv venv
    venv/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 gguf==0.19.0 numpy==2.4.6
    venv/bin/python tests/reference/make_tokenizer_fixtures.py tests/reference/tokenizers WIKITEXT [SMOLLM2.gguf]

WIKITEXT (wikitext-2.valid.txt) is what they are trained on and, whole, one of the texts: of its tokens the number and a
hash are kept. SMOLLM2.gguf is a file with the vocabulary of SmolLM2. The tests read the results without Python.
"""

import json
import pathlib
import sys

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"\p{N}{1,3}" + REST
QWEN2 = CONTRACTION + r"\p{N}" + REST
# Marks are letters.
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

TEXTS = [
    "", " ", "  ", "a", "Hello world", " Hello world", "Hello  world ", "\tHello\t\tworld", "line\nline\n\nline\r\n\r\n  x",
    "   leading and trailing   ", "\n\n\n", "a \n b  \n  c", "I'm sure they've said we'll, she'd DON'T it'S 'tis 's",
    "In 1984, 123456789 and 3.14159; 1,000,000 - 42% ½ Ⅷ ²", "don't stop !!! ... -- ?!? @-@ <unk> = Title = ",
    "The <|endoftext|> end</s><s> of <|im_start|>user\nhi<|im_end|>\n <|begin_of_text|>x", "</s></s>  </s> a</s>b",
    "emoji 😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪", "数千年来，人類は言葉を使ってきた。한국어 텍스트", "مرحبا بالعالم، كيف حالك؟ ١٢٣",
    "नमस्ते दुनिया। क्षत्रिय १२३", "Cafe\u0301 Åström ﬁne Ω ﬀ ㎏ ① \u1e9b\u0323 İstanbul ΣΑΣ", "e\u0301\u0302\u0300 zalgo Z\u0351\u0346\u0314",
    "control \x00\x01\x02\x1b[0m\x7f \x85 \u200b\u200d\ufeff \u2028\u2029 \u00a0 \u3000 \x0b\x0c", "naïve façade — “quotes” … «x» ‘y’",
    "def f(x):\n    return x ** 2  # comment\n\tif (a && b) { c[0] = \"s\\n\"; }", "https://example.org/a?b=c&d=%20#e user@mail.com",
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "a" * 300, " " * 40 + "x" + "\n" * 20, "▁under ▁▁ ▁", "Ġbyte Ċ level Ã©", "<0x0A><0xFF> <unk>", "\U0001f600\U000e0001\U0010ffff \ue000",
    "x\u0308y \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 ไทย", "ALL CAPS and MiXeD cAsE", "[MASK] word[MASK]word [CLS] [CLS]x token tokens atoken",
    "\ufffd\ufffd a\ufffd", " \u0301combining first", "1\u20442 \u0663\u0664 \u09ea", "ſ's K'ſ Å'LL", "a\u00b2b \u24b6\u200dc \u2e43\u061d\u166d x\uab69\u32ff\u1abf",
]  # fmt: skip
INVALID = [
    b"ok \xff\xfe ok", b"\xc3", b"\xe2\x82", b"\xe2\x82 \xac", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\x80", b"\xed\xa0\x80", b"\xc0\xaf",
    b"\xf4\x90\x80\x80", b"\xe0\x80\x80x", b"a\x80b\xbf", b"\xf0\x9f\xf0\x9f\x98\x80", b"\xf8\x88\x80\x80\x80",
]  # fmt: skip


def fnv(ids):
    value = 0xCBF29CE484222325
    for token in ids:
        value = ((value ^ token) * 0x100000001B3) % (1 << 64)
    return f"{value:016x}"


def save(folder, name, tokenizer, wikitext, extra=None, **files):
    """The tokenizer, as its library writes it, and its answers."""
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    if extra is not None:
        target.joinpath("tokenizer.json").write_text(json.dumps(extra, ensure_ascii=False, separators=(",", ":")))
        tokenizer = Tokenizer.from_str(json.dumps(extra))
    for file, content in files.items():
        target.joinpath(file + ".json").write_text(json.dumps(content))
    texts = TEXTS + [text.decode("utf-8", "replace") for text in INVALID]
    ids = [tokenizer.encode(text).ids for text in texts]
    whole = tokenizer.encode(wikitext, add_special_tokens=False).ids
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    decoded = [tokenizer.decode(one, skip_special_tokens=False) for one in ids]
    skipped = [tokenizer.decode(one, skip_special_tokens=True) for one in ids]
    answers = {  # null is what the answer before says, or the text itself
        "ids": ids,
        "plain": [None if one == all else one for one, all in zip(plain, ids)],
        "decoded": [None if one == text else one for one, text in zip(decoded, TEXTS)] + decoded[len(TEXTS) :],
        "skipped": [None if one == all else one for one, all in zip(skipped, decoded)],
        "wikitext": {"num_tokens": len(whole), "fnv": fnv(whole)},
    }
    target.joinpath("answers.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")


def as_dict(tokenizer):
    return json.loads(tokenizer.to_str())


def train_byte_level(wikitext, pre_tokenizer, special, size=560, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([wikitext] + TEXTS * 20, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_level_families(folder, wikitext):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    only_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    gpt2 = train_byte_level(wikitext, byte_level, [AddedToken("<|endoftext|>", normalized=True, special=True)])
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    old = as_dict(gpt2)  # as the first versions of the library wrote it
    del old["model"]["type"]
    old["model"]["merges"] = [" ".join(merge) for merge in old["model"]["merges"]]
    save(folder, "gpt2", gpt2, wikitext, old, tokenizer_config={"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})

    opt = train_byte_level(wikitext, byte_level, ["<s>", "<pad>", "</s>", "<unk>"])
    opt.post_processor = processors.TemplateProcessing(single="</s> $A", pair="</s> $A </s> $B", special_tokens=[("</s>", 2)])
    save(folder, "opt", opt, wikitext, as_dict(opt), config={"bos_token_id": 2, "eos_token_id": 2})

    roberta = train_byte_level(wikitext, pre_tokenizers.ByteLevel(add_prefix_space=True), ["<s>", "</s>"])
    roberta.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False), AddedToken("[CLS]", rstrip=True, single_word=True)])
    roberta.add_tokens([AddedToken("token", single_word=True), AddedToken("MiXeD", normalized=True), AddedToken("x ", lstrip=True)])
    roberta.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    save(folder, "roberta", roberta, wikitext, as_dict(roberta))

    llama3 = train_byte_level(
        wikitext,
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), only_bytes]),
        ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"],
    )
    llama3.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)]),
        ]
    )
    new = as_dict(llama3)
    new["model"]["ignore_merges"] = True
    new["model"]["vocab"]["Ġencyclopaedia"] = 560  # a word that no merge reaches
    config = {"bos_token": {"content": "<|begin_of_text|>"}, "eos_token": "<|end_of_text|>"}
    save(folder, "llama3", llama3, wikitext, new, tokenizer_config=config, generation_config={"eos_token_id": [1, 2]})

    qwen2 = train_byte_level(
        wikitext,
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), only_bytes]),
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        normalizer=normalizers.NFC(),
    )
    save(folder, "qwen2", qwen2, wikitext, as_dict(qwen2))

    qwen35 = train_byte_level(
        wikitext + " ax\u0331" * 5000,  # a mark that NFC does not join to its letter
        pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN35), "isolated"), only_bytes]),
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        normalizer=normalizers.NFC(),
    )
    save(folder, "qwen35", qwen35, wikitext, as_dict(qwen35))
    write_byte_level_gguf(folder / "qwen35" / "vocabulary.gguf", as_dict(qwen35), "qwen35")

    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    smollm = train_byte_level(wikitext, digits, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    save(folder, "smollm", smollm, wikitext, as_dict(smollm))
    write_byte_level_gguf(folder / "smollm" / "vocabulary.gguf", as_dict(smollm), "smollm")

    bloom = train_byte_level(
        wikitext, pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(BLOOM), "isolated"), only_bytes]), ["<unk>", "<s>", "</s>"]
    )
    save(folder, "bloom", bloom, wikitext, as_dict(bloom))

    falcon = train_byte_level(
        wikitext,
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Punctuation("contiguous"),
                byte_level,
                pre_tokenizers.Digits(individual_digits=False),
                pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
            ]
        ),
        ["<|endoftext|>"],
    )
    save(folder, "falcon", falcon, wikitext, as_dict(falcon))


def write_byte_level_gguf(path, tokenizer, pre):
    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda entry: entry[1])
    special = {token["id"] for token in tokenizer["added_tokens"]}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([text for text, _ in vocabulary])
    writer.add_token_types([3 if token in special else 1 for _, token in vocabulary])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    write(writer)


def write(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def train_sentencepiece(wikitext, kind, prefix, **options):
    name = "/tmp/sentencepiece_of_" + kind
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in wikitext.split("\n") if line.strip()] + TEXTS * 4),
        model_prefix=name,
        vocab_size=700,
        model_type=kind,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        split_digits=True,
        byte_fallback=True,
        allow_whitespace_only_pieces=True,
        max_sentence_length=100000,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return pathlib.Path(name + ".model").read_bytes()


def merges_of(vocabulary, scores):
    """As transformers' `generate_merges`."""
    merges = []
    for text, score in scores.items():
        local = []
        for index in range(1, len(text)):
            left, right = text[:index], text[index:]
            if left in vocabulary and right in vocabulary:
                local.append((left, right, score))
        merges.extend(sorted(local, key=lambda merge: (vocabulary[merge[0]], vocabulary[merge[1]])))
    merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
    return [(left, right) for left, right, _ in merges]


def bpe_of(processor):
    pieces = [processor.id_to_piece(index) for index in range(processor.vocab_size())]
    scores = {
        piece: processor.get_score(index)
        for index, piece in enumerate(pieces)
        if not (processor.is_control(index) or processor.is_unknown(index) or processor.is_byte(index))
    }
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    model = models.BPE(vocabulary, merges_of(vocabulary, scores), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in ["<unk>", "<s>", "</s>"]])
    return tokenizer


def sentencepiece_families(folder, wikitext):
    fused = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    begin = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])

    model = train_sentencepiece(wikitext, "bpe", True)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    llama2 = bpe_of(processor)
    llama2.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    llama2.decoder = decoders.Sequence(fused + [decoders.Strip(" ", 1, 0)])
    llama2.post_processor = begin
    save(folder, "llama2", llama2, wikitext, as_dict(llama2))

    mistral = bpe_of(processor)
    mistral.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first", split=False)
    mistral.decoder = decoders.Sequence(fused + [decoders.Strip(" ", 1, 0)])
    mistral.post_processor = begin
    save(folder, "mistral", mistral, wikitext, as_dict(mistral))
    write_sentencepiece_gguf(folder / "mistral" / "vocabulary.gguf", processor)
    save_sentencepiece(folder, "spm_bpe", model, wikitext)

    gemma = bpe_of(sentencepiece.SentencePieceProcessor(model_proto=train_sentencepiece(wikitext, "bpe", False)))
    gemma.normalizer = normalizers.Replace(" ", "▁")
    gemma.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    gemma.decoder = decoders.Sequence(fused)
    gemma.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    save(folder, "gemma", gemma, wikitext, as_dict(gemma))

    model = train_sentencepiece(wikitext, "unigram", True)
    save_sentencepiece(folder, "spm_unigram", model, wikitext)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for name, fallback in [("unigram", False), ("unigram_bytes", True)]:
        pieces = [(processor.id_to_piece(index), processor.get_score(index)) for index in range(processor.vocab_size())]
        unigram = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=fallback))
        unigram.add_special_tokens(["<s>", "</s>"])
        unigram.normalizer = normalizers.Sequence(
            [normalizers.NFKC(), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
        )
        unigram.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always")
        unigram.decoder = decoders.Metaspace("▁", "always")
        unigram.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
        save(folder, name, unigram, wikitext, as_dict(unigram))


def write_sentencepiece_gguf(path, processor):
    count = processor.vocab_size()
    kinds = [2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 6 if processor.is_byte(i) else 1 for i in range(count)]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([processor.id_to_piece(i) for i in range(count)])
    writer.add_token_scores([processor.get_score(i) for i in range(count)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    write(writer)


def save_sentencepiece(folder, name, model, wikitext):
    """Of the library alone: no special token is in its texts."""
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    target.joinpath("tokenizer.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = TEXTS + [text.decode("utf-8", "replace") for text in INVALID]
    texts = ["" if any(token in text for token in ["<s>", "</s>", "<unk>"]) else text for text in texts]
    texts[TEXTS.index("a" * 300)] = ""  # sums of 32-bit scores that are equal but for their rounding
    ids = [processor.encode(text) for text in texts]
    whole = processor.encode(wikitext.replace("<unk>", "unk"))
    answers = {"plain": ids, "wikitext": {"num_tokens": len(whole), "fnv": fnv(whole)}}
    target.joinpath("answers.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")


def other_families(folder, wikitext):
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents(), normalizers.Strip()])
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator([wikitext], trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]", "[MASK]"], show_progress=False))
    save(folder, "word_level", words, wikitext, as_dict(words))

    for behavior in ["removed", "isolated", "contiguous", "merged_with_previous", "merged_with_next"]:
        for invert in [False, True]:
            cut = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
            cut.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Split(Regex(r"\s+|[a-m]+|\W"), behavior, invert), pre_tokenizers.Punctuation(behavior)]
            )
            name = "split_" + behavior + ("_inverted" if invert else "")
            every = sorted({word for text in TEXTS for word, _ in cut.pre_tokenizer.pre_tokenize_str(text)})
            kept = every[:: max(1, len(every) // 60)]
            cut.model = models.WordLevel({word: i for i, word in enumerate(["[UNK]"] + kept)}, unk_token="[UNK]")
            save(folder, name, cut, wikitext, as_dict(cut))

    chars = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>", fuse_unk=False))
    chars.normalizer = normalizers.BertNormalizer()
    chars.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.BertPreTokenizer()])
    chars.train_from_iterator(
        [wikitext],
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=["<unk>"],
            limit_alphabet=60,
            continuing_subword_prefix="##",
            end_of_word_suffix="</w>",
            show_progress=False,
        ),
    )
    chars.decoder = decoders.BPEDecoder("</w>")
    save(folder, "affixes", chars, wikitext, as_dict(chars))


def smollm2(folder, path, wikitext):
    """The vocabulary of the file, with the components of SmolLM2's tokenizer.json; only the answers are kept."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    types = fields["tokenizer.ggml.token_type"].contents()
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token, kind in zip(tokens, types) if kind == 3])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    save(folder, "smollm2", tokenizer, wikitext)


def main(folder, wikitext_path, *smollm2_paths):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wikitext = pathlib.Path(wikitext_path).read_text(encoding="utf-8")
    texts = {"texts": TEXTS, "invalid": [list(text) for text in INVALID]}
    folder.joinpath("texts.json").write_text(json.dumps(texts) + "\n")
    byte_level_families(folder, wikitext)
    sentencepiece_families(folder, wikitext)
    other_families(folder, wikitext)
    for path in smollm2_paths:
        smollm2(folder, path, wikitext)


if __name__ == "__main__":
    main(*sys.argv[1:])
