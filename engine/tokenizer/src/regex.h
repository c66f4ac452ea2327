#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct URegularExpression;

namespace tessera::tokenizer {

struct Span {
  std::size_t begin = 0, end = 0;  // bytes
};

struct CloseRegex {
  void operator()(URegularExpression* regex) const;
};
using RegexHandle = std::unique_ptr<URegularExpression, CloseRegex>;

/// Whose \w an expression means: Oniguruma's, or that of Rust's `regex`, which is ICU's.
enum class Dialect { oniguruma, rust };

/// An expression in the language of Oniguruma (Hugging Face's), matched by ICU. What the two
/// languages mean differently is refused when it is compiled.
class Regex {
 public:
  /// @param where names file and component in errors
  /// @throws Error{invalid_argument} for what ICU refuses, Error{unsupported}
  Regex(const std::string& pattern, const std::string& where, Dialect dialect = Dialect::oniguruma);

  const std::string& pattern() const { return pattern_; }

 private:
  friend class Matcher;
  std::string pattern_, where_;
  RegexHandle compiled_;
};

/// One thread's use of an expression, for one text of at most `num_bytes`, in as many parts as
/// wanted. Bounded in stack and steps.
class Matcher {
 public:
  Matcher(const Regex& regex, std::size_t num_bytes);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// Matches in `text`, well-formed UTF-8, from left to right; valid until the next call.
  /// @throws Error{invalid_argument} where the expression gives up
  const std::vector<Span>& find_all(std::string_view text);

 private:
  void to_utf16(std::string_view text);
  std::size_t byte_of(std::int32_t unit) const;

  const Regex& regex_;
  RegexHandle handle_;
  std::int64_t ticks_left_;
  std::u16string units_;
  std::vector<std::uint32_t> bytes_;  // of each unit; empty for ASCII
  std::vector<Span> found_;
};

}  // namespace tessera::tokenizer
