#include "expression_parser.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "tessera/core/text.h"

namespace tessera::chat {
namespace {

constexpr std::array<std::string_view, 12> kKeywords{
    "and", "or", "not", "in", "is", "if", "else", "elif", "recursive", "for", "set", "endfor"};

}  // namespace

bool ExpressionParser::is_keyword(const std::string& word) {
  return std::ranges::find(kKeywords, word) != kKeywords.end();
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind, int line, std::string word) {
  auto e = std::make_unique<Expression>();
  e->kind = kind;
  e->line = line;
  e->word = std::move(word);
  return e;
}

ExpressionPtr ExpressionParser::binary(std::string op, ExpressionPtr left, ExpressionPtr right) {
  ExpressionPtr e = make(ExpressionKind::binary, left->line, std::move(op));
  e->parts.push_back(std::move(left));
  e->parts.push_back(std::move(right));
  return e;
}

ExpressionPtr ExpressionParser::expression() {
  const Deeper deeper(depth_, now().line);
  ExpressionPtr e = disjunction();
  while (now().is_name("if")) {
    ExpressionPtr chosen = make(ExpressionKind::chosen, take().line);
    chosen->parts.push_back(std::move(e));
    chosen->parts.push_back(disjunction());
    chosen->parts.push_back(skip_name("else") ? expression() : nullptr);
    e = std::move(chosen);
  }
  return e;
}

ExpressionPtr ExpressionParser::disjunction() {
  ExpressionPtr e = conjunction();
  while (skip_name("or")) e = binary("or", std::move(e), conjunction());
  return e;
}

ExpressionPtr ExpressionParser::conjunction() {
  ExpressionPtr e = negation();
  while (skip_name("and")) e = binary("and", std::move(e), negation());
  return e;
}

ExpressionPtr ExpressionParser::negation() {
  if (!now().is_name("not")) return comparison();
  const Deeper deeper(depth_, now().line);
  ExpressionPtr e = make(ExpressionKind::unary, take().line, "not");
  e->parts.push_back(negation());
  return e;
}

std::string ExpressionParser::comparing_word() {
  for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (skip_op(op)) return op;
  }
  if (skip_name("in")) return "in";
  if (now().is_name("not") && ahead().is_name("in")) return take(), take(), "not in";
  return "";
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  ExpressionPtr e;
  while (true) {
    std::string word = comparing_word();
    if (word.empty()) return e ? std::move(e) : std::move(first);
    if (!e) {
      e = make(ExpressionKind::compared, first->line);
      e->parts.push_back(std::move(first));
    }
    e->words.push_back(std::move(word));
    e->parts.push_back(sum());
  }
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr e = concatenation();
  while (now().is_op("+") || now().is_op("-")) {
    std::string op = take().text;
    e = binary(std::move(op), std::move(e), concatenation());
  }
  return e;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr e = product();
  while (skip_op("~")) e = binary("~", std::move(e), product());
  return e;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr e = unary(true);
  if (now().is_op("**")) not_understood(now().line, "the operator '**'");
  while (now().is_op("*") || now().is_op("/") || now().is_op("//") || now().is_op("%")) {
    std::string op = take().text;
    e = binary(std::move(op), std::move(e), unary(true));
  }
  return e;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Deeper deeper(depth_, now().line);
  ExpressionPtr e;
  if (now().is_op("-") || now().is_op("+")) {
    const Token op = take();
    e = make(ExpressionKind::unary, op.line, op.text);
    e->parts.push_back(unary(false));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filters ? filters(std::move(e)) : std::move(e);
}

ExpressionPtr ExpressionParser::literal(Value value) {
  ExpressionPtr e = make(ExpressionKind::literal, now().line);
  e->value = std::move(value);
  return e;
}

ExpressionPtr ExpressionParser::primary() {
  const Token token = now();
  if (token.kind == Kind::string) {
    std::string text;
    while (now().kind == Kind::string) text += take().text;
    return literal(std::move(text));
  }
  if (token.kind == Kind::number) return number();
  if (token.kind == Kind::name && !is_keyword(token.text)) {
    take();
    if (token.text == "true" || token.text == "True") return literal(true);
    if (token.text == "false" || token.text == "False") return literal(false);
    if (token.text == "none" || token.text == "None") return literal(Value::None{});
    return make(ExpressionKind::name, token.line, token.text);
  }
  if (skip_op("(")) {
    ExpressionPtr e = expression();
    if (now().is_op(",")) not_understood(token.line, "a tuple");
    want_op(")");
    return e;
  }
  if (skip_op("[")) return list(token.line);
  if (skip_op("{")) return dict(token.line);
  refuse_line(token.line, token.kind == Kind::end || token.text.empty()
                              ? "a value is missing"
                              : fmt::format("{} where a value belongs", quote(token.text)));
}

ExpressionPtr ExpressionParser::number() {
  const Token token = take();
  if (token.text.size() > 18) refuse_line(token.line, "a number is too long");
  if (token.text.find('.') != std::string::npos)
    return literal(std::strtod(token.text.c_str(), nullptr));
  return literal(static_cast<std::int64_t>(std::stoll(token.text)));
}

ExpressionPtr ExpressionParser::list(int line) {
  ExpressionPtr e = make(ExpressionKind::list, line);
  while (!now().is_op("]")) {
    e->parts.push_back(expression());
    if (!skip_op(",")) break;
  }
  want_op("]");
  return e;
}

ExpressionPtr ExpressionParser::dict(int line) {
  ExpressionPtr e = make(ExpressionKind::dict, line);
  while (!now().is_op("}")) {
    e->parts.push_back(expression());
    want_op(":");
    e->parts.push_back(expression());
    if (!skip_op(",")) break;
  }
  want_op("}");
  return e;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr e) {
  int links = 0;
  while (true) {
    if (++links > kMostDepth) refuse_line(now().line, "it is nested too deep");
    const int line = now().line;
    if (skip_op(".")) {
      ExpressionPtr next;
      if (now().kind == Kind::number) {
        next = make(ExpressionKind::item, line);
        next->parts.push_back(std::move(e));
        next->parts.push_back(number());
      } else {
        if (now().kind != Kind::name) refuse_line(line, "a name belongs behind '.'");
        next = make(ExpressionKind::attribute, line, take().text);
        next->parts.push_back(std::move(e));
      }
      e = std::move(next);
    } else if (skip_op("[")) {
      e = subscript(std::move(e), line);
    } else if (now().is_op("(")) {
      ExpressionPtr next = make(ExpressionKind::call, line);
      next->parts.push_back(std::move(e));
      next->arguments = arguments();
      e = std::move(next);
    } else {
      return e;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr of, int line) {
  ExpressionPtr parts[3];
  int colons = 0;
  while (!now().is_op("]")) {
    if (skip_op(":")) {
      if (++colons > 2) refuse_line(line, "a slice has three parts at most");
    } else if (parts[colons]) {
      refuse_line(line, "']' belongs here");
    } else {
      parts[colons] = expression();
    }
  }
  want_op("]");
  if (colons == 0 && !parts[0]) refuse_line(line, "an index is missing");
  ExpressionPtr e = make(colons > 0 ? ExpressionKind::slice : ExpressionKind::item, line);
  e->parts.push_back(std::move(of));
  e->parts.push_back(std::move(parts[0]));
  if (colons > 0) {
    e->parts.push_back(std::move(parts[1]));
    e->parts.push_back(std::move(parts[2]));
  }
  return e;
}

CallArguments ExpressionParser::arguments() {
  CallArguments all;
  want_op("(");
  while (!now().is_op(")")) {
    if (now().is_op("*") || now().is_op("**")) not_understood(now().line, "'*' before an argument");
    if (now().kind == Kind::name && ahead().is_op("=")) {
      std::string name = take().text;
      take();
      all.named.emplace_back(std::move(name), expression());
    } else {
      if (!all.named.empty()) refuse_line(now().line, "an argument follows a named one");
      all.values.push_back(expression());
    }
    if (!skip_op(",")) break;
  }
  want_op(")");
  return all;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr e) {
  int links = 0;
  while (true) {
    if (++links > kMostDepth) refuse_line(now().line, "it is nested too deep");
    const int line = now().line;
    if (skip_op("|")) {
      const std::string name = want_name();
      if (!is_filter(name)) not_understood(line, fmt::format("the filter {}", quote(name)));
      ExpressionPtr next = make(ExpressionKind::filter, line, name);
      next->parts.push_back(std::move(e));
      if (now().is_op("(")) next->arguments = arguments();
      check_filter_argument(*next);
      e = std::move(next);
    } else if (skip_name("is")) {
      e = test(std::move(e), line);
    } else if (now().is_op("(")) {
      refuse_line(line, "what a filter gives is not called");
    } else {
      return e;
    }
  }
}

// Names of filters and tests that filters take as arguments.
void ExpressionParser::check_filter_argument(const Expression& e) {
  const bool selects =
      e.word == "selectattr" || e.word == "rejectattr" || e.word == "select" || e.word == "reject";
  const std::size_t place = e.word == "selectattr" || e.word == "rejectattr" ? 1 : 0;
  if (e.arguments.values.size() <= place) return;
  const Expression& argument = *e.arguments.values[place];
  if (argument.kind != ExpressionKind::literal || !argument.value.text()) return;
  const std::string& name = *argument.value.text();
  if (selects && !is_test(name)) not_understood(e.line, fmt::format("the test {}", quote(name)));
  if (e.word == "map" && !is_filter(name))
    not_understood(e.line, fmt::format("the filter {}", quote(name)));
}

ExpressionPtr ExpressionParser::test(ExpressionPtr of, int line) {
  const bool negated = skip_name("not");
  std::string name = now().is_name("in") ? take().text : want_name();
  if (!is_test(name)) not_understood(line, fmt::format("the test {}", quote(name)));
  ExpressionPtr e = make(ExpressionKind::test, line, std::move(name));
  e->parts.push_back(std::move(of));
  const Token& next = now();
  const bool has_value = next.kind == Kind::string || next.kind == Kind::number ||
                         next.is_op("[") || next.is_op("{") ||
                         (next.kind == Kind::name && !is_keyword(next.text));
  if (next.is_op("(")) {
    e->arguments = arguments();
  } else if (has_value) {
    e->arguments.values.push_back(postfix(primary()));
  }
  if (!negated) return e;
  ExpressionPtr inverse = make(ExpressionKind::unary, line, "not");
  inverse->parts.push_back(std::move(e));
  return inverse;
}

}  // namespace tessera::chat
