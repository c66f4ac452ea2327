#include "normalizer.h"

#include "byte_level.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::tokenizer {
namespace {

// Calls `add(out, character)` for every character of the text, which becomes what they add.
template <typename Add>
void rewrite(std::string& text, const Add& add) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) add(out, next_character(text, at));
  text = std::move(out);
}

}  // namespace

void check_growth(std::size_t size, std::size_t grown) {
  constexpr std::size_t kTimes = 16, kMore = 64 << 10;
  if (grown / kTimes <= size + kMore / kTimes) return;
  refuse(ErrorCode::out_of_range, "tokenizer",
         "its replacements make more than {} of a text of {}; it is damaged or hostile, fetch it "
         "again",
         format_bytes(static_cast<double>(kTimes * size + kMore)),
         format_bytes(static_cast<double>(size)));
}

void apply_all(const Normalizers& normalizers, std::string& text) {
  const std::size_t size = text.size();
  for (const auto& normalizer : normalizers) {
    normalizer->apply(text);
    check_growth(size, text.size());
  }
}

void Strip::apply(std::string& text) const {
  std::size_t begin = 0, end = text.size();
  while (left_ && begin < end) {
    std::size_t next = begin;
    if (!is_whitespace(next_character(text, next))) break;
    begin = next;
  }
  while (right_ && begin < end) {
    const std::size_t last = previous_character(text, end);
    std::size_t next = last;
    if (!is_whitespace(next_character(text, next))) break;
    end = last;
  }
  text = text.substr(begin, end - begin);
}

void StripAccents::apply(std::string& text) const {
  rewrite(text, [](std::string& out, char32_t character) {
    if (!is_mark(character)) append_character(out, character);
  });
}

void Replace::apply(std::string& text) const {
  if (text_.empty()) return;
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(text_); at != std::string::npos; at = text.find(text_, done)) {
    out.append(text, done, at - done).append(content_);
    check_growth(text.size(), out.size());
    done = at + text_.size();
  }
  if (done == 0) return;
  text = out.append(text, done, std::string::npos);
}

void ReplaceRegex::apply(std::string& text) const {
  std::string out;
  std::size_t done = 0;
  Matcher matcher(regex_, text.size());
  for (const Span& match : matcher.find_all(text)) {
    out.append(text, done, match.begin - done).append(content_);
    check_growth(text.size(), out.size());
    done = match.end;
  }
  text = out.append(text, done, std::string::npos);
}

void ByteLevelNormalizer::apply(std::string& text) const {
  std::string out;
  append_byte_level(out, text);
  text = std::move(out);
}

void BertNormalizer::apply(std::string& text) const {
  if (options_.clean_text) {
    rewrite(text, [](std::string& out, char32_t c) {
      const bool blank = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xFFFD || (is_control(c) && !blank)) return;
      append_character(out, is_whitespace(c) ? U' ' : c);
    });
  }
  if (options_.handle_chinese_chars) {
    rewrite(text, [](std::string& out, char32_t c) {
      if (is_cjk_ideograph(c)) out += ' ';
      append_character(out, c);
      if (is_cjk_ideograph(c)) out += ' ';
    });
  }
  if (options_.strip_accents) {
    text = normalised(text, Form::nfd);
    rewrite(text, [](std::string& out, char32_t character) {
      if (!is_nonspacing_mark(character)) append_character(out, character);
    });
  }
  if (options_.lowercase) text = lower_case(text);
}

}  // namespace tessera::tokenizer
