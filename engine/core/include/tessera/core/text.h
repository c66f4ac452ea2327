#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// The candidates that a misspelt `word` most likely meant, best first, at most `limit`.
/// Distance is Damerau-Levenshtein (optimal string alignment) on lower-cased text; a shared prefix
/// or a contained word also counts.
std::vector<std::string> nearest_names(std::string_view word,
                                       const std::vector<std::string>& candidates,
                                       std::size_t limit = 3);

/// `"; did you mean 'a', 'b' or 'c'?"`, or `"; known: x, y, ..."` when nothing is near (at most 12
/// shown), or "" without candidates.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// In lower case; letters outside ASCII stay as they are.
std::string lower(std::string_view text);

/// Joins with a separator.
std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// Whether `text` is well-formed UTF-8, which JSON needs.
bool is_utf8(std::string_view text);

/// Of `text` what comes before the first byte that is not UTF-8: all of it where it is_utf8.
std::string_view utf8_prefix(std::string_view text);

/// `text` with '?' for control characters other than line ends and tabs, which a terminal would
/// obey, and for bytes that are not UTF-8.
std::string printable(std::string_view text);

/// `text` cut to `max_length` bytes on a UTF-8 boundary, control characters and what is not
/// UTF-8 replaced, for quoting user input in messages.
std::string quote(std::string_view text, std::size_t max_length = 60);

}  // namespace tessera
