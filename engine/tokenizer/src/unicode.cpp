#include "unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/uversion.h>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::tokenizer {
namespace {

// Bytes of the well-formed character at `at`, or 0, and then `subpart` of its bytes could begin
// one (Unicode 15, table 3-7).
std::size_t character_bytes(std::string_view text, std::size_t at, std::size_t& subpart) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned first = byte(0);
  subpart = 1;
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (subpart = 2; subpart < length; ++subpart) {
    if ((byte(subpart) & 0xC0u) != 0x80u) return 0;
  }
  return length;
}

// The crates that Hugging Face's tokenizers are built on have tables of these versions of Unicode:
// what came later is nothing special to them.
constexpr std::uint8_t kCategoriesVersion = 8;      // unicode_categories
constexpr std::uint8_t kNormalisationVersion = 12;  // unicode-normalization-alignments

bool is_in(char32_t character, std::uint8_t version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(character), age);
  return age[0] < version || (age[0] == version && age[1] == 0);
}

bool has_category(char32_t character, std::uint32_t mask) {
  return (U_GET_GC_MASK(static_cast<UChar32>(character)) & mask) != 0;
}

[[noreturn]] void fail(const char* what, UErrorCode status) {
  throw Error(ErrorCode::internal, std::string("ICU cannot ") + what + ": " + u_errorName(status));
}

const icu::Normalizer2& make_normalizer(const char* name, UNormalization2Mode mode) {
  UErrorCode status = U_ZERO_ERROR;
  static const icu::UnicodeSet known = [] {
    UErrorCode set_status = U_ZERO_ERROR;
    icu::UnicodeSet set;
    UVersionInfo version = {kNormalisationVersion, 0, 0, 0};
    char text[U_MAX_VERSION_STRING_LENGTH];
    u_versionToString(version, text);
    set.applyPropertyAlias(u"age", icu::UnicodeString(text), set_status);
    if (U_FAILURE(set_status)) fail("list the characters of a version", set_status);
    return set.freeze(), set;
  }();
  const icu::Normalizer2* all = icu::Normalizer2::getInstance(nullptr, name, mode, status);
  if (U_FAILURE(status)) fail("find a normal form", status);
  return *new icu::FilteredNormalizer2(*all, known);  // for as long as the process
}

const icu::Normalizer2& normalizer_of(Form form) {
  static const icu::Normalizer2* const all[] = {
      &make_normalizer("nfc", UNORM2_COMPOSE), &make_normalizer("nfc", UNORM2_DECOMPOSE),
      &make_normalizer("nfkc", UNORM2_COMPOSE), &make_normalizer("nfkc", UNORM2_DECOMPOSE)};
  return *all[static_cast<std::size_t>(form)];
}

}  // namespace

void append_character(std::string& text, char32_t character) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xC0 | character >> 6);
  } else if (character < 0x10000) {
    add(0xE0 | character >> 12);
    add(0x80 | (character >> 6 & 0x3F));
  } else {
    add(0xF0 | character >> 18);
    add(0x80 | (character >> 12 & 0x3F));
    add(0x80 | (character >> 6 & 0x3F));
  }
  add(0x80 | (character & 0x3F));
}

std::string replace_invalid_utf8(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string valid;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t subpart = 0;
    const std::size_t length = character_bytes(text, at, subpart);
    if (length == 0) {
      valid += kReplacement;
      at += subpart;
    } else {
      valid += text.substr(at, length);
      at += length;
    }
  }
  return valid;
}

bool is_whitespace(char32_t character) {
  if (character < 0x80) return character == ' ' || (character >= 9 && character <= 13);
  return u_isUWhiteSpace(static_cast<UChar32>(character));
}
bool is_numeric(char32_t character) { return has_category(character, U_GC_N_MASK); }
bool is_punctuation(char32_t character) {
  if (character < 0x80) {
    return (character >= '!' && character <= '/') || (character >= ':' && character <= '@') ||
           (character >= '[' && character <= '`') || (character >= '{' && character <= '~');
  }
  constexpr char32_t kOncePunctuation[] = {0x166D, 0x111C9};  // symbols and marks since
  if (character == kOncePunctuation[0] || character == kOncePunctuation[1]) return true;
  return has_category(character, U_GC_P_MASK) && is_in(character, kCategoriesVersion);
}
bool is_mark(char32_t character) {
  return has_category(character, U_GC_M_MASK) && is_in(character, kNormalisationVersion);
}
bool is_nonspacing_mark(char32_t character) {
  return has_category(character, U_GC_MN_MASK) && is_in(character, kCategoriesVersion);
}
bool is_word(char32_t character) {
  if (has_category(character, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) return true;
  const auto c = static_cast<UChar32>(character);
  return u_isUAlphabetic(c) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL);
}
bool is_control(char32_t character) {
  return has_category(character, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK);
}
bool is_cjk_ideograph(char32_t c) {  // the blocks that BERT lists
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string normalised(std::string_view text, Form form) {
  UErrorCode status = U_ZERO_ERROR;
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<std::int32_t>(text.size()));
  const icu::StringPiece piece(text.data(), static_cast<std::int32_t>(text.size()));
  normalizer_of(form).normalizeUTF8(0, piece, sink, nullptr, status);
  if (U_FAILURE(status)) fail("normalise a text", status);
  return result;
}

std::string lower_case(std::string_view text) {
  constexpr char32_t kDottedCapitalI = 0x130;  // the one letter whose lower case is two characters
  std::string lowered;
  lowered.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t character = next_character(text, at);
    if (character == kDottedCapitalI) {
      lowered += "i\xCC\x87";
    } else {
      append_character(lowered, static_cast<char32_t>(u_tolower(static_cast<UChar32>(character))));
    }
  }
  return lowered;
}

}  // namespace tessera::tokenizer
