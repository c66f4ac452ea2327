// What holds for every text: byte-level tokenizers lose nothing, and all stay in their vocabulary.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "tessera/core/text.h"
#include "tessera/lm/text_stream.h"
#include "tokens.h"

namespace tessera::tokenizer::tokenizer_property_test {
namespace {

std::shared_ptr<const lm::Tokens> load(const std::string& family) {
  return lm::load_tokens(std::string(TESSERA_SOURCE_DIR) + "/tests/reference/tokenizers/" + family);
}

// Characters of all lengths and kinds, and pieces that tokenizers look for.
rc::Gen<std::string> texts() {
  const auto character = [](char32_t low, char32_t high) {
    return rc::gen::map(rc::gen::inRange<std::uint32_t>(low, high), [](std::uint32_t c) {
      std::string text;
      if (c < 0x80) return text += static_cast<char>(c);
      if (c < 0x800) {
        text += static_cast<char>(0xC0 | c >> 6);
      } else {
        if (c < 0x10000) {
          text += static_cast<char>(0xE0 | c >> 12);
        } else {
          text += static_cast<char>(0xF0 | c >> 18);
          text += static_cast<char>(0x80 | (c >> 12 & 0x3F));
        }
        text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
      }
      return text += static_cast<char>(0x80 | (c & 0x3F));
    });
  };
  const auto fragment = rc::gen::oneOf(
      character(1, 0x80), character(0x80, 0x800), character(0x800, 0xD800),
      character(0xE000, 0x10000), character(0x10000, 0x110000),
      rc::gen::element<std::string>(" ", "  ", "\n", "\r\n", "'s", "'LL", "123", " the", "▁", "Ġ",
                                    "</s>", "<|im_end|>", "<unk>", "\u200d", "\U0001F468"));
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(fragment),
                      [](const std::vector<std::string>& parts) { return join(parts, ""); });
}

RC_GTEST_PROP(TokenizerProperty, byteLevelLosesNothing, ()) {
  static const auto all = {load("gpt2"),   load("opt"),   load("llama3"),
                           load("smollm"), load("bloom"), load("falcon")};
  const std::string text = *texts();
  RC_ASSERT(is_utf8(text));
  for (const auto& tokenizer : all) {
    RC_ASSERT(tokenizer->decode(tokenizer->encode(text, false)) == text);
  }
}

RC_GTEST_PROP(TokenizerProperty, idsAreOfTheVocabularyAndStreamsAgree, ()) {
  static const auto all = {load("llama2"),  load("mistral"),    load("gemma"),
                           load("qwen2"),   load("word_level"), load("unigram"),
                           load("affixes"), load("spm_bpe"),    load("spm_unigram")};
  const std::string text = *texts();
  for (const auto& tokenizer : all) {
    const std::vector<std::int32_t> ids = tokenizer->encode(text);
    lm::TextStream stream(*tokenizer, {});
    std::string streamed;
    for (const std::int32_t id : ids) {
      RC_ASSERT(id >= 0 && id < tokenizer->vocab_size());
      streamed += stream.add(id);
    }
    RC_ASSERT(streamed + stream.finish() == tokenizer->decode(ids, true));
  }
}

}  // namespace
}  // namespace tessera::tokenizer::tokenizer_property_test
