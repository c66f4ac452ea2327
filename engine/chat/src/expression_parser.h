#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "lexer.h"
#include "syntax.h"

namespace tessera::chat {

inline constexpr int kMostDepth = 100;  ///< of brackets and blocks inside of each other

/// Expressions of a template, with the precedence of Jinja's own parser; and the place in its
/// tokens, which statements share.
class ExpressionParser {
 protected:
  using Kind = Token::Kind;

  static bool is_keyword(const std::string& word);

  explicit ExpressionParser(const std::string& text) : tokens_(tokens_of(text)) {}

  struct Deeper {
    Deeper(int& of, int line) : depth(of) {
      if (++depth > kMostDepth) refuse_line(line, "it is nested too deep");
    }
    ~Deeper() { --depth; }
    int& depth;
  };

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_op(std::string_view op) { return now().is_op(op) && (take(), true); }
  bool skip_name(std::string_view name) { return now().is_name(name) && (take(), true); }
  void want_op(std::string_view op) {
    if (!skip_op(op)) refuse_line(now().line, fmt::format("'{}' belongs here", op));
  }
  std::string want_name() {
    if (now().kind != Kind::name || is_keyword(now().text))
      refuse_line(now().line, "a name belongs here");
    return take().text;
  }
  void want_block_end() {
    if (now().kind != Kind::block_end) refuse_line(now().line, "'%}' belongs here");
    take();
  }

  ExpressionPtr expression();
  /// Without "x if y else z".
  ExpressionPtr disjunction();

  int depth_ = 0;

 private:
  static ExpressionPtr make(ExpressionKind kind, int line, std::string word = {});
  static ExpressionPtr binary(std::string op, ExpressionPtr left, ExpressionPtr right);
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  std::string comparing_word();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr literal(Value value);
  ExpressionPtr primary();
  ExpressionPtr number();
  ExpressionPtr list(int line);
  ExpressionPtr dict(int line);
  ExpressionPtr postfix(ExpressionPtr e);
  ExpressionPtr subscript(ExpressionPtr of, int line);
  CallArguments arguments();
  ExpressionPtr filters(ExpressionPtr e);
  static void check_filter_argument(const Expression& e);
  ExpressionPtr test(ExpressionPtr of, int line);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace tessera::chat
