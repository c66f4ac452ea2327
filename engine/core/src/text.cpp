#include "tessera/core/text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace tessera {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, previous[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view word,
                                       const std::vector<std::string>& candidates,
                                       std::size_t limit) {
  // A word longer than any name is noise, and the distance is quadratic in its length.
  if (word.empty() || word.size() > 128) return {};
  const std::string wanted = lower(word);
  std::vector<std::pair<double, std::string>> scored;
  for (const std::string& candidate : candidates) {
    const std::string name = lower(candidate);
    const double distance = static_cast<double>(edit_distance(wanted, name));
    const bool contained =
        wanted.size() >= 3 && (name.find(wanted) != std::string::npos ||
                               (name.size() >= 3 && wanted.find(name) != std::string::npos));
    // "T4" for "T4-16G": the whole of a name's first part is nearer than a letter exchanged.
    const bool first_part = name.size() > wanted.size() && name.starts_with(wanted) &&
                            !std::isalnum(static_cast<unsigned char>(name[wanted.size()]));
    const double allowed = std::max(1.0, static_cast<double>(wanted.size()) / 3.0);
    if (first_part) {
      scored.emplace_back(0.5, candidate);
    } else if (distance <= allowed || contained) {
      scored.emplace_back(contained ? std::min(distance, allowed) : distance, candidate);
    }
  }
  std::stable_sort(scored.begin(), scored.end());
  std::vector<std::string> result;
  for (auto& [distance, name] : scored) {
    if (result.size() == limit) break;
    result.push_back(std::move(name));
  }
  return result;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "";
  const std::vector<std::string> near = nearest_names(word, candidates);
  if (!near.empty()) {
    std::string text = "; did you mean ";
    for (std::size_t i = 0; i < near.size(); ++i) {
      if (i > 0) text += i + 1 == near.size() ? " or " : ", ";
      text += "'" + near[i] + "'";
    }
    return text + "?";
  }
  constexpr std::size_t kShown = 12;
  std::vector<std::string> shown(
      candidates.begin(),
      candidates.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, candidates.size())));
  std::string text = "; known: " + join(shown, ", ");
  if (candidates.size() > kShown) text += ", ...";
  return text;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

namespace {

// Bytes of the well-formed character at `at`; 0 where there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || at + length > text.size()) return 0;
  char32_t code = lead & (length == 1 ? 0x7F : 0xFF >> (length + 1));
  for (std::size_t k = 1; k < length; ++k) {
    const auto next = static_cast<unsigned char>(text[at + k]);
    if ((next & 0xC0) != 0x80) return 0;
    code = (code << 6) | (next & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  return overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF) ? 0 : length;
}

}  // namespace

std::string_view utf8_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t length = utf8_length(text, end);
    if (length == 0) break;
    end += length;
  }
  return text.substr(0, end);
}

bool is_utf8(std::string_view text) { return utf8_prefix(text).size() == text.size(); }

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const auto first = static_cast<unsigned char>(text[i]);
    const bool ends_line = first == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    const bool ascii_control =
        (first < 0x20 && first != '\n' && first != '\t' && !ends_line) || first == 0x7F;
    // U+0080 to U+009F are control characters too, and terminals obey them.
    const bool control = length == 2 && first == 0xC2 && (text[i + 1] & 0x60) == 0;
    if (length == 0 || ascii_control || control) {
      result += '?';
    } else {
      result.append(text, i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return result;
}

std::string quote(std::string_view text, std::size_t max_length) {
  const bool readable = is_utf8(text);
  std::string result = "'";
  std::size_t length = std::min(text.size(), max_length);
  while (length > 0 && length < text.size() &&
         (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) {
    --length;
  }
  for (std::size_t i = 0; i < length; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    result += (c < 0x20 || c == 0x7F || (c >= 0x80 && !readable)) ? '?' : text[i];
  }
  result += length < text.size() ? "...'" : "'";
  return result;
}

}  // namespace tessera
