// Texts, in UTF-8 or not, for tokenizers of every kind: the first byte says which, the rest is the
// text. Its tokens are tokens, and are UTF-8 again, whole and one by one.
#include "tessera/core/text.h"

#include <algorithm>
#include <filesystem>

#include "target.h"
#include "tessera/lm/text_stream.h"
#include "tokens.h"

namespace text_target {
namespace {

using tessera::fuzz::require;

const std::vector<std::shared_ptr<const tessera::lm::Tokens>>& tokenizers() {
  static const auto* all = [] {
    std::vector<std::string> folders;
    for (const auto& entry :
         std::filesystem::directory_iterator(TESSERA_SOURCE_DIR "/tests/reference/tokenizers")) {
      if (entry.is_directory()) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    auto* made = new std::vector<std::shared_ptr<const tessera::lm::Tokens>>;
    for (const std::string& folder : folders) {
      try {
        made->push_back(tessera::lm::load_tokens(folder));
      } catch (const tessera::Error&) {  // a folder with expectations of larger ones alone
      }
    }
    require(made->size() >= 8, "no tokenizers");
    return made;
  }();
  return *all;
}

}  // namespace

TESSERA_FUZZ_TARGET(text) {
  return tessera::fuzz::read(data, size, [](std::string_view input) {
    const std::size_t which = input.empty() ? 0 : static_cast<unsigned char>(input.front());
    const auto& tokenizer = tokenizers()[which % tokenizers().size()];
    const std::string_view text = input.substr(std::min<std::size_t>(1, input.size()));
    require(tessera::is_utf8(text) == (tessera::utf8_prefix(text) == text), "a prefix of its own");
    const std::vector<std::int32_t> ids = tokenizer->encode(text);
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < tokenizer->vocab_size(), "a token outside the vocabulary");
    }
    for (const bool skip_special : {false, true}) {
      require(tessera::is_utf8(tokenizer->decode(ids, skip_special)), "a text that is not UTF-8");
    }
    tessera::lm::TextStream stream(*tokenizer, {});
    for (const std::int32_t id : ids) {
      require(tessera::is_utf8(stream.add(id)), "a piece that is not UTF-8");
    }
    require(tessera::is_utf8(stream.finish()), "a last piece that is not UTF-8");
  });
}

}  // namespace text_target
