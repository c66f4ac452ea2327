#include "regex.h"

#include <fmt/format.h>
#include <unicode/uregex.h>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "unicode.h"

namespace tessera::tokenizer {
namespace {

constexpr std::size_t kMaxPattern = 10'000;     // those of models have some hundred characters
constexpr std::int32_t kStackBytes = 64 << 20;  // of ICU's own stack of states to go back to
constexpr std::int64_t kTicks = 500;            // a tick is 10,000 saved states, about 1 ms
constexpr std::size_t kBytesPerTick = 256;      // one more tick for so much text
constexpr std::size_t kMaxText = 512ull << 20;  // ICU counts units in 31 bits

// What Oniguruma and ICU both take and mean differently.
void check_dialect(const std::string& pattern, const std::string& where) {
  const auto refuse_construct = [&](std::size_t at, std::size_t length) {
    refuse(ErrorCode::unsupported, where, "'{}' in the expression {} is not understood",
           pattern.substr(at, length), quote(pattern, 200));
  };
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] == '\\') {
      if (at + 1 < pattern.size() &&
          std::string_view("hHyYKOgkNRXMCc").find(pattern[at + 1]) != std::string_view::npos) {
        refuse_construct(at, 2);
      }
      ++at;
    } else if (pattern.compare(at, 2, "(?") == 0) {
      const std::size_t end = pattern.find_first_not_of("imsx-", at + 2);
      const std::string flags = pattern.substr(at + 2, end - at - 2);
      if (flags.find_first_of("msx") != std::string::npos) refuse_construct(at, 2 + flags.size());
      if (end != std::string::npos && (pattern[end] == '~' || pattern[end] == '(')) {
        refuse_construct(at, 3);
      }
    }
  }
}

std::u16string utf16_of(const std::string& text) {
  std::u16string units;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c >= 0x10000) units += static_cast<char16_t>(0xD7C0 + (c >> 10));
    units += static_cast<char16_t>(c >= 0x10000 ? 0xDC00 + (c & 0x3FF) : c);
  }
  return units;
}

// Oniguruma counts the Latin-1 digits that are no decimal ones among the characters of a word, and
// ICU the joiners.
std::string with_word_of_oniguruma(const std::string& pattern) {
  constexpr const char* kWord = R"([\w\u00b2\u00b3\u00b9\u00bc-\u00be]--[\u200c\u200d]])";
  std::string translated;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '\\' || at + 1 == pattern.size()) {
      translated += pattern[at];
      continue;
    }
    const char escaped = pattern[++at];
    if (escaped == 'w' || escaped == 'W') {
      translated += (escaped == 'w' ? "[" : "[^") + std::string(kWord);
    } else {
      translated.append({'\\', escaped});
    }
  }
  return translated;
}

UBool U_CALLCONV take_tick(const void* context, std::int32_t) {
  auto* left = static_cast<std::int64_t*>(const_cast<void*>(context));
  return --*left > 0;
}

}  // namespace

void CloseRegex::operator()(URegularExpression* regex) const { uregex_close(regex); }

Regex::Regex(const std::string& pattern, const std::string& where, Dialect dialect)
    : pattern_(pattern), where_(where) {
  if (pattern.empty()) refuse(where, "an empty expression");
  if (pattern.size() > kMaxPattern) {
    refuse(where, "an expression of {} bytes; the limit is {}", pattern.size(), kMaxPattern);
  }
  check_dialect(pattern, where);
  UErrorCode status = U_ZERO_ERROR;
  UParseError at{};
  const std::u16string units =
      utf16_of(dialect == Dialect::oniguruma ? with_word_of_oniguruma(pattern) : pattern);
  // Oniguruma's ^ and $ are those of lines, which only U+000A ends.
  compiled_.reset(uregex_open(units.data(), static_cast<std::int32_t>(units.size()),
                              UREGEX_MULTILINE | UREGEX_UNIX_LINES, &at, &status));
  if (U_FAILURE(status)) {
    refuse(where, "the expression {} is broken at character {}: {}", quote(pattern, 200), at.offset,
           u_errorName(status));
  }
}

Matcher::Matcher(const Regex& regex, std::size_t num_bytes)
    : regex_(regex), ticks_left_(kTicks + static_cast<std::int64_t>(num_bytes / kBytesPerTick)) {
  UErrorCode status = U_ZERO_ERROR;
  handle_.reset(uregex_clone(regex.compiled_.get(), &status));
  uregex_setStackLimit(handle_.get(), kStackBytes, &status);
  uregex_setMatchCallback(handle_.get(), take_tick, &ticks_left_, &status);
  if (U_FAILURE(status)) {
    throw Error(ErrorCode::internal, fmt::format("{}: ICU cannot copy an expression: {}",
                                                 regex.where_, u_errorName(status)));
  }
}

Matcher::~Matcher() = default;

void Matcher::to_utf16(std::string_view text) {
  units_.resize(text.size());
  bytes_.clear();
  std::size_t at = 0;
  for (; at < text.size() && static_cast<unsigned char>(text[at]) < 0x80; ++at) {
    units_[at] = static_cast<char16_t>(text[at]);
  }
  if (at == text.size()) return;
  std::size_t unit = at;
  bytes_.resize(text.size() + 1);
  for (std::size_t i = 0; i < at; ++i) bytes_[i] = static_cast<std::uint32_t>(i);
  while (at < text.size()) {
    const auto begin = static_cast<std::uint32_t>(at);
    const char32_t c = next_character(text, at);
    bytes_[unit] = begin;
    if (c >= 0x10000) {
      units_[unit++] = static_cast<char16_t>(0xD7C0 + (c >> 10));
      bytes_[unit] = begin;
    }
    units_[unit++] = static_cast<char16_t>(c >= 0x10000 ? 0xDC00 + (c & 0x3FF) : c);
  }
  units_.resize(unit);
  bytes_[unit] = static_cast<std::uint32_t>(text.size());
}

std::size_t Matcher::byte_of(std::int32_t unit) const {
  const auto at = static_cast<std::size_t>(unit);
  return bytes_.empty() ? at : bytes_[at];
}

const std::vector<Span>& Matcher::find_all(std::string_view text) {
  if (text.size() > kMaxText) {
    refuse(regex_.where_, "a text of {} bytes in one piece; the limit is {}", text.size(),
           kMaxText);
  }
  to_utf16(text);
  found_.clear();
  UErrorCode status = U_ZERO_ERROR;
  URegularExpression* regex = handle_.get();
  uregex_setText(regex, units_.data(), static_cast<std::int32_t>(units_.size()), &status);
  while (uregex_findNext(regex, &status)) {
    found_.push_back(
        {byte_of(uregex_start(regex, 0, &status)), byte_of(uregex_end(regex, 0, &status))});
  }
  if (U_FAILURE(status)) {
    refuse(regex_.where_, "the expression {} gives up on a text of {} bytes: {}",
           quote(regex_.pattern_, 200), text.size(), u_errorName(status));
  }
  return found_;
}

}  // namespace tessera::tokenizer
