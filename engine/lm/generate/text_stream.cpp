#include "tessera/lm/text_stream.h"

#include <algorithm>
#include <string_view>

namespace tessera::lm {
namespace {

// Tokens of the prompt that the first token's text is seen beside.
constexpr std::size_t kContext = 5;
// More tokens than a character has bytes: what is incomplete by then never becomes a character.
constexpr std::size_t kMostPending = 8;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the character at the start of `text` by its first byte, and how many of its bytes are
// there and right; a length of 0 where none starts so.
struct Character {
  std::size_t length, right;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char head = byte(0);
  if (head < 0x80) return {1, 1};
  const std::size_t length = head >= 0xC2 && head < 0xE0   ? 2
                             : head >= 0xE0 && head < 0xF0 ? 3
                             : head >= 0xF0 && head < 0xF5 ? 4
                                                           : 0;
  std::size_t right = 1;
  while (right < std::min(length, text.size())) {
    unsigned char low = 0x80, high = 0xBF;
    if (right == 1 && head == 0xE0) low = 0xA0;   // no longer form than needed
    if (right == 1 && head == 0xED) high = 0x9F;  // no surrogates
    if (right == 1 && head == 0xF0) low = 0x90;
    if (right == 1 && head == 0xF4) high = 0x8F;  // nothing beyond U+10FFFF
    if (byte(right) < low || byte(right) > high) break;
    ++right;
  }
  return {length, right};
}

// `text` with U+FFFD for each run of bytes that is no character. `open` gets the length of a
// character at the end whose last bytes are missing; it is left out.
std::string repaired(std::string_view text, std::size_t& open) {
  std::string out;
  open = 0;
  while (!text.empty()) {
    const auto [length, right] = first_character(text);
    if (length > 0 && right == length) {
      out += text.substr(0, length);
    } else if (length > 0 && right == text.size()) {
      open = right;
      return out;
    } else {
      out += kReplacement;
    }
    text.remove_prefix(right);
  }
  return out;
}

}  // namespace

TextStream::TextStream(const Tokens& tokens, const std::vector<std::int32_t>& prompt)
    : tokens_(tokens),
      window_(prompt.end() - static_cast<std::ptrdiff_t>(std::min(kContext, prompt.size())),
              prompt.end()),
      shown_(window_.size()) {}

std::string TextStream::gained() const {
  const std::string before = tokens_.decode({window_.data(), shown_}, true);
  const std::string now = tokens_.decode(window_, true);
  return now.size() > before.size() ? now.substr(before.size()) : std::string();
}

std::string TextStream::add(std::int32_t token) {
  window_.push_back(token);
  const std::string text = gained();
  std::size_t open = 0;
  std::string piece = repaired(text, open);
  // A decoder may itself put U+FFFD for bytes that the next token completes.
  const bool waits = text.empty() || open > 0 || piece.ends_with(kReplacement);
  if (waits && window_.size() - shown_ < kMostPending) return "";
  if (text.empty()) {  // Tokens without a text: the next one goes on beside what was shown.
    window_.resize(shown_);
    return "";
  }
  if (open > 0) piece += kReplacement;
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(shown_));
  shown_ = window_.size();
  return piece;
}

std::string TextStream::finish() {
  if (shown_ == window_.size()) return "";
  std::size_t open = 0;
  std::string piece = repaired(gained(), open);
  if (open > 0) piece += kReplacement;
  shown_ = window_.size();
  return piece;
}

}  // namespace tessera::lm
