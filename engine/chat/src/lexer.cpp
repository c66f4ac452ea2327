#include "lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::chat {

void refuse_line(int line, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("line {}: {}", line, what));
}

void not_understood(int line, const std::string& what) {
  throw Error(ErrorCode::unsupported, fmt::format("line {}: {} is not understood", line, what));
}

namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";
constexpr std::array<std::string_view, 28> kOperators{
    "==", "!=", "<=", ">=", "//", "**", "<", ">", "+", "-", "*", "/", "%", "~",
    "|",  "(",  ")",  "[",  "]",  "{",  "}", ",", ".", ":", "=", ";", "&", "^"};

bool is_word(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (!first && c >= '0' && c <= '9');
}
bool is_figure(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string text) : text_(std::move(text)) {
    if (text_.ends_with('\n')) text_.pop_back();  // one line end at the end is not kept
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) take_text();
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  void move_to(std::size_t to) {
    const auto from = text_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ +=
        static_cast<int>(std::count(from, text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  // As far as the next tag, and that.
  void take_text() {
    std::size_t tag = at_;
    const auto opens = [&](std::size_t i) {
      return text_[i] == '{' && i + 1 < text_.size() &&
             std::string_view("{%#").find(text_[i + 1]) != std::string_view::npos;
    };
    while (tag < text_.size() && !opens(tag)) ++tag;
    std::string before = text_.substr(at_, tag - at_);
    const std::size_t start = at_;
    if (tag == text_.size()) {
      add_text(before);
      return move_to(tag);
    }
    const char kind = text_[tag + 1];
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
    if (sign == '-') {
      before.resize(before.find_last_not_of(kBlanks) + 1);
    } else if (kind != '{' && sign != '+') {
      strip_line_start(before, start);
    }
    add_text(before);
    move_to(tag + (sign == '-' || sign == '+' ? 3 : 2));
    if (kind == '#') return skip_comment();
    add(kind == '{' ? Token::Kind::print_begin : Token::Kind::block_begin, "");
    take_tag(kind == '{' ? "}}" : "%}");
  }

  // Blanks of a line before a block that begins it.
  void strip_line_start(std::string& before, std::size_t start) const {
    const std::size_t last = before.find_last_not_of(" \t");
    const bool begins =
        last == std::string::npos ? start == 0 || text_[start - 1] == '\n' : before[last] == '\n';
    if (begins) before.resize(last == std::string::npos ? 0 : last + 1);
  }

  void add_text(const std::string& text) {
    if (!text.empty()) add(Token::Kind::text, text);
  }

  // Behind a tag: all blanks, or of a block the line end.
  void after_tag(char sign, bool is_block) {
    if (sign == '-') {
      const std::size_t next = text_.find_first_not_of(kBlanks, at_);
      move_to(next == std::string::npos ? text_.size() : next);
    } else if (is_block && sign != '+') {
      if (text_.compare(at_, 2, "\r\n") == 0) {
        move_to(at_ + 2);
      } else if (at_ < text_.size() && text_[at_] == '\n') {
        move_to(at_ + 1);
      }
    }
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) refuse_line(line_, "a comment does not end");
    const char sign = text_[end - 1];
    move_to(end + 2);
    after_tag(sign, true);
  }

  void take_tag(std::string_view close) {
    int depth = 0;  // of brackets, in which }} may stand for itself
    while (true) {
      const std::size_t next = text_.find_first_not_of(kBlanks, at_);
      if (next == std::string::npos) refuse_line(line_, fmt::format("{} is missing", close));
      move_to(next);
      const char sign = text_[at_];
      const bool signed_end = (sign == '-' || sign == '+') && text_.compare(at_ + 1, 2, close) == 0;
      if (signed_end || (depth == 0 && text_.compare(at_, 2, close) == 0)) {
        const bool is_block = close == "%}";
        add(is_block ? Token::Kind::block_end : Token::Kind::print_end, "");
        move_to(at_ + (signed_end ? 3 : 2));
        return after_tag(signed_end ? sign : ' ', is_block);
      }
      take_token(depth);
    }
  }

  void take_token(int& depth) {
    const char c = text_[at_];
    if (is_word(c, true))
      return take_while(Token::Kind::name, [](char d) { return is_word(d, false); });
    if (is_figure(c)) return take_number();
    if (c == '"' || c == '\'') return take_string(c);
    for (const std::string_view op : kOperators) {
      if (text_.compare(at_, op.size(), op) != 0) continue;
      if (op == "{" || op == "[" || op == "(") ++depth;
      if (op == "}" || op == "]" || op == ")") --depth;
      add(Token::Kind::op, std::string(op));
      return move_to(at_ + op.size());
    }
    refuse_line(line_, fmt::format("{} has no meaning here", quote(text_.substr(at_, 1))));
  }

  template <class Belongs>
  void take_while(Token::Kind kind, const Belongs& belongs) {
    std::size_t end = at_;
    while (end < text_.size() && belongs(text_[end])) ++end;
    add(kind, text_.substr(at_, end - at_));
    move_to(end);
  }

  void take_number() {
    std::size_t end = at_;
    while (end < text_.size() && is_figure(text_[end])) ++end;
    if (end + 1 < text_.size() && text_[end] == '.' && is_figure(text_[end + 1])) {
      ++end;
      while (end < text_.size() && is_figure(text_[end])) ++end;
    }
    add(Token::Kind::number, text_.substr(at_, end - at_));
    move_to(end);
  }

  void take_string(char quote_mark) {
    std::string out;
    std::size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != quote_mark; ++i) {
      if (text_[i] != '\\' || i + 1 == text_.size()) {
        out += text_[i];
        continue;
      }
      const char c = text_[++i];
      switch (c) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case 'r':
          out += '\r';
          break;
        case '\\':
        case '\'':
        case '"':
          out += c;
          break;
        case 'x':
        case 'u':
        case 'U':
          i = take_code_point(out, i, c == 'x' ? 2 : c == 'u' ? 4 : 8);
          break;
        default:
          out += '\\', out += c;
      }
    }
    if (i >= text_.size()) refuse_line(line_, "a text in quotes does not end");
    add(Token::Kind::string, out);
    move_to(i + 1);
  }

  // \u00e9; @return where its last figure stands
  std::size_t take_code_point(std::string& out, std::size_t at, std::size_t figures) {
    const std::string text = text_.substr(at + 1, figures);
    const bool is_hex = text.size() == figures &&
                        text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    const unsigned long code = is_hex ? std::stoul(text, nullptr, 16) : 0x110000;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      refuse_line(line_, "an escape is no character");
    const auto byte = [&](unsigned long value) { out += static_cast<char>(value); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F));
    } else {
      byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F)),
          byte(0x80 | (code & 0x3F));
    }
    return at + figures;
  }

  std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(const std::string& text) { return Lexer(text).run(); }

}  // namespace tessera::chat
