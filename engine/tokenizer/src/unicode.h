#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::tokenizer {

/// The character that begins at byte `at` of well-formed UTF-8; `at` moves to the next.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return text[at++];
  if (first < 0xE0) {
    at += 2;
    return static_cast<char32_t>((first & 0x1Fu) << 6 | (byte(at - 1) & 0x3Fu));
  }
  if (first < 0xF0) {
    at += 3;
    return static_cast<char32_t>((first & 0x0Fu) << 12 | (byte(at - 2) & 0x3Fu) << 6 |
                                 (byte(at - 1) & 0x3Fu));
  }
  at += 4;
  return static_cast<char32_t>((first & 0x07u) << 18 | (byte(at - 3) & 0x3Fu) << 12 |
                               (byte(at - 2) & 0x3Fu) << 6 | (byte(at - 1) & 0x3Fu));
}

/// Where the character before byte `at` begins.
inline std::size_t previous_character(std::string_view text, std::size_t at) {
  do {
    --at;
  } while ((static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u);
  return at;
}

void append_character(std::string& text, char32_t character);

/// U+FFFD for each maximal subpart of what is not UTF-8, as Python's errors="replace" and Rust's
/// from_utf8_lossy.
std::string replace_invalid_utf8(std::string_view text);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Classes of characters as Rust's char and Hugging Face's crates have them.
bool is_whitespace(char32_t character);       ///< White_Space
bool is_numeric(char32_t character);          ///< Nd, Nl, No
bool is_punctuation(char32_t character);      ///< P*, and what ASCII counts among it ($, +, ~)
bool is_mark(char32_t character);             ///< M*
bool is_nonspacing_mark(char32_t character);  ///< Mn
bool is_word(char32_t character);             ///< \w of Rust's regex
bool is_control(char32_t character);          ///< Cc, Cf, Co
bool is_cjk_ideograph(char32_t character);

enum class Form { nfc, nfd, nfkc, nfkd };
std::string normalised(std::string_view text, Form form);

/// Each character by itself: no rule for the sigma that ends a word.
std::string lower_case(std::string_view text);

}  // namespace tessera::tokenizer
