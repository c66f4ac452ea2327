// Tokenizers by the first byte of the input: 'G' a GGUF file, '\n' a tokenizer.model, else a
// tokenizer.json. What is accepted cuts and joins texts.
#include "tessera/tokenizer/tokenizer.h"

#include "input_folder.h"
#include "target.h"
#include "tessera/core/text.h"

namespace tokenizer_target {
namespace {

using tessera::fuzz::require;

std::string write_input(std::string_view content, const char* name) {
  static const tessera::fuzz::Folder folder;
  return folder.file(name, content);
}

void use(const tessera::tokenizer::Tokenizer& tokenizer, std::string_view text) {
  try {
    const std::vector<std::int32_t> ids = tokenizer.encode(text);
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < tokenizer.vocab_size(), "a token outside the vocabulary");
    }
    require(tessera::is_utf8(tokenizer.decode(ids)), "a text that is not UTF-8");
  } catch (const tessera::Error& error) {  // a character without a token
    require(error.code() == tessera::ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace

TESSERA_FUZZ_TARGET(tokenizer) {
  return tessera::fuzz::read(data, size, [](std::string_view input) {
    const char first = input.empty() ? '{' : input.front();
    const char* name = first == 'G'    ? "a.gguf"
                       : first == '\n' ? "tokenizer.model"
                                       : "tokenizer.json";
    const auto tokenizer = tessera::tokenizer::Tokenizer::load(write_input(input, name));
    for (const std::string_view text :
         {"", " ", "Hello  world's 123\n\n", "\xC3\xA9\xF0\x9F\x98\x80 \xE2\x96\x81<s></s>\xFF"}) {
      use(*tokenizer, text);
    }
  });
}

}  // namespace tokenizer_target
