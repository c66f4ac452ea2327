// Templates to statements.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "expression_parser.h"
#include "tessera/core/text.h"

namespace tessera::chat {
namespace {

class Parser : ExpressionParser {
 public:
  explicit Parser(const std::string& text) : ExpressionParser(text) {}

  Block run() {
    Block block = statements({});
    if (now().kind != Kind::end) refuse_line(now().line, "an end without a beginning");
    return block;
  }

 private:
  // ------------------------------------------------------------------------------------ statements

  // As far as a block that begins with one of these words, which is left to the caller.
  Block statements(const std::vector<std::string_view>& ends) {
    const Deeper deeper(depth_, now().line);
    Block block;
    while (now().kind != Kind::end) {
      const int line = now().line;
      if (now().kind == Kind::text) {
        block.push_back({.kind = StatementKind::text, .line = line, .text = take().text});
      } else if (now().kind == Kind::print_begin) {
        take();
        block.push_back({.kind = StatementKind::print, .line = line, .value = expression()});
        if (now().kind != Kind::print_end) refuse_line(now().line, "'}}' belongs here");
        take();
      } else {
        if (std::ranges::find(ends, ahead().text) != ends.end()) return block;
        take();
        block.push_back(statement());
      }
    }
    if (!ends.empty()) refuse_line(now().line, fmt::format("'{}' is missing", ends.back()));
    return block;
  }

  // {% and one of these words, which was looked for.
  std::string take_end_word() {
    take();
    return take().text;
  }

  Statement statement() {
    const int line = now().line;
    if (now().kind != Kind::name) refuse_line(line, "a statement belongs here");
    const std::string word = take().text;
    if (word == "if") return choice(line);
    if (word == "for") return loop(line);
    if (word == "set") return assignment(line);
    if (word == "macro") return macro(line);
    if (word == "generation") return body(line);
    if (word == "break" || word == "continue") {
      want_block_end();
      if (loops_ == 0) refuse_line(line, word + " outside of a loop");
      return {.kind = word == "break" ? StatementKind::leave : StatementKind::next, .line = line};
    }
    if (word.starts_with("end") || word == "else" || word == "elif")
      refuse_line(line, fmt::format("'{}' without a beginning", word));
    not_understood(line, fmt::format("the statement {}", quote(word)));
  }

  Statement choice(int line) {
    Statement s{.kind = StatementKind::choice, .line = line};
    s.conditions.push_back(expression());
    want_block_end();
    while (true) {
      s.blocks.push_back(statements({"elif", "else", "endif"}));
      const std::string word = take_end_word();
      if (word == "elif") s.conditions.push_back(expression());
      want_block_end();
      if (word == "endif") return s;
      if (word == "elif") continue;
      s.blocks.push_back(statements({"endif"}));
      take_end_word();
      want_block_end();
      return s;
    }
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool bracket = skip_op("(");
    do {
      names.push_back(want_name());
    } while (skip_op(","));
    if (bracket) want_op(")");
    return names;
  }

  Statement loop(int line) {
    Statement s{.kind = StatementKind::loop, .line = line, .names = targets()};
    if (!skip_name("in")) refuse_line(now().line, "'in' belongs here");
    s.value = disjunction();
    if (skip_name("if")) s.conditions.push_back(expression());
    if (now().is_name("recursive")) not_understood(now().line, "a recursive loop");
    want_block_end();
    ++loops_;
    s.blocks.push_back(statements({"else", "endfor"}));
    --loops_;
    const std::string word = take_end_word();
    want_block_end();
    if (word == "endfor") return s;
    s.blocks.push_back(statements({"endfor"}));
    take_end_word();
    want_block_end();
    return s;
  }

  Statement assignment(int line) {
    Statement s{.kind = StatementKind::set, .line = line};
    s.names = targets();
    if (s.names.size() == 1 && skip_op(".")) s.field = want_name();
    if (skip_op("=")) {
      s.value = expression();
      if (now().is_op(",")) not_understood(line, "a tuple");
      want_block_end();
      return s;
    }
    if (now().is_op("|")) not_understood(line, "a set block with a filter");
    if (s.names.size() > 1 || !s.field.empty()) refuse_line(line, "'=' belongs here");
    want_block_end();
    s.kind = StatementKind::set_text;
    s.blocks.push_back(statements({"endset"}));
    take_end_word();
    want_block_end();
    return s;
  }

  Statement macro(int line) {
    if (depth_ > 1) not_understood(line, "a macro inside of another block");
    Statement s{.kind = StatementKind::macro, .line = line, .text = want_name()};
    want_op("(");
    while (!now().is_op(")")) {
      s.names.push_back(want_name());
      s.conditions.push_back(skip_op("=") ? expression() : nullptr);
      if (!skip_op(",")) break;
    }
    want_op(")");
    want_block_end();
    const int loops = std::exchange(loops_, 0);
    s.blocks.push_back(statements({"endmacro"}));
    loops_ = loops;
    take_end_word();
    if (now().kind == Kind::name) take();
    want_block_end();
    return s;
  }

  // What transformers marks as the assistant's own text.
  Statement body(int line) {
    want_block_end();
    Statement s{.kind = StatementKind::body, .line = line};
    s.blocks.push_back(statements({"endgeneration"}));
    take_end_word();
    want_block_end();
    return s;
  }

  int loops_ = 0;
};

}  // namespace

Block parse_template(const std::string& text) { return Parser(text).run(); }

}  // namespace tessera::chat
