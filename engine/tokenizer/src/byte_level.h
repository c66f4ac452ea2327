#pragma once

#include <string>
#include <string_view>

namespace tessera::tokenizer {

/// GPT-2's alphabet: a printable character for each byte, so that no token holds a blank. Printable
/// bytes of Latin-1 stand for themselves, the others for U+0100, U+0101, ... in their order.
/// Source: Radford et al. 2019, encoder.py, bytes_to_unicode.
/// Appends the characters of the bytes of `text`.
void append_byte_level(std::string& out, std::string_view text);

/// Appends the bytes that the characters of a token stand for; a token with a character of another
/// alphabet stands for itself.
void append_bytes_of(std::string& out, std::string_view token);

/// GPT-2's expression: contractions, letters, digits, others, each with a blank before, and blanks.
inline constexpr const char* kByteLevelExpression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace tessera::tokenizer
