#include <utility>

#include "tessera/core/text.h"
#include "tessera/tokenizer/tokenizer.h"
#include "unicode.h"

namespace tessera::tokenizer {
namespace {

// Tokens without a new character after which what there is is taken for broken: a character has at
// most 4 bytes, but an emoji of several may be spelled by a dozen of byte tokens.
constexpr std::size_t kMaxPending = 64;

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

}  // namespace

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

// A window of tokens is decoded: the pending ones, and those before them whose text is known, for
// decoders treat the first token of a text differently.
std::string StreamDecoder::push(std::int32_t id) {
  if (tokenizer_->is_special(id) && skip_special_tokens_) return "";
  ids_.push_back(id);
  std::string text = tokenizer_->decode(ids_, skip_special_tokens_);
  std::size_t complete = text.size();
  const bool give_up = ids_.size() - num_context_ > kMaxPending;
  while (!give_up && complete >= kReplacement.size() &&
         std::string_view(text).substr(complete - kReplacement.size(), kReplacement.size()) ==
             kReplacement) {
    complete -= kReplacement.size();
  }
  const bool is_whole = complete == text.size();
  text.resize(complete);
  std::string fresh;
  if (starts_with(text, given_) && text.size() > given_.size()) {
    fresh = text.substr(given_.size());
    given_ = std::move(text);
  }
  if (is_whole && (give_up || !fresh.empty())) {
    ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(num_context_));
    num_context_ = ids_.size();
    given_ = tokenizer_->decode(ids_, skip_special_tokens_);
  }
  return fresh;
}

std::string StreamDecoder::finish() {
  std::string rest;
  if (ids_.size() > num_context_) {
    const std::string text = tokenizer_->decode(ids_, skip_special_tokens_);
    rest = starts_with(text, given_) ? text.substr(given_.size()) : std::string(kReplacement);
  }
  ids_.clear();
  num_context_ = 0;
  given_.clear();
  return rest;
}

}  // namespace tessera::tokenizer
