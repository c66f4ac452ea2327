#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "value.h"

namespace tessera::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

/// A call's arguments before they are evaluated.
struct CallArguments {
  std::vector<ExpressionPtr> values = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
};

enum class ExpressionKind {
  literal,    ///< value
  name,       ///< word
  list,       ///< parts
  dict,       ///< parts: key, value, key, value, ...
  attribute,  ///< parts[0], word
  item,       ///< parts[0][parts[1]]
  slice,      ///< parts[0][parts[1]:parts[2]:parts[3]], each of these may be null
  call,       ///< parts[0](arguments)
  filter,     ///< parts[0] | word(arguments)
  test,       ///< parts[0] is word(arguments)
  unary,      ///< word parts[0]: "not", "-", "+"
  binary,     ///< parts[0] word parts[1]
  compared,   ///< parts[0] words[0] parts[1] words[1] parts[2] ...
  chosen,     ///< parts[0] if parts[1] else parts[2], which may be null
};

struct Expression {
  ExpressionKind kind;
  int line = 1;
  Value value = {};
  std::string word = {};
  std::vector<std::string> words = {};
  std::vector<ExpressionPtr> parts = {};
  CallArguments arguments = {};
};

struct Statement;
using Block = std::vector<Statement>;

enum class StatementKind {
  text,      ///< text
  print,     ///< value
  choice,    ///< conditions and blocks; one block more where there is an else
  loop,      ///< for names in value [if conditions[0]]: blocks[0], else blocks[1]
  set,       ///< names = value, or of a namespace: names[0].field
  set_text,  ///< names[0] = what blocks[0] prints
  macro,     ///< text(names = conditions): blocks[0]
  body,      ///< blocks[0]
  leave,     ///< break
  next,      ///< continue
};

struct Statement {
  StatementKind kind;
  int line = 1;
  std::string text = {}, field = {};
  std::vector<std::string> names = {};
  ExpressionPtr value = {};
  std::vector<ExpressionPtr> conditions = {};
  std::vector<Block> blocks = {};
};

/// @throws Error{unsupported} naming what is not understood, Error{invalid_argument} for what is no
/// template; both with the line
Block parse_template(const std::string& text);

/// Names that filters and tests have here.
bool is_filter(const std::string& name);
bool is_test(const std::string& name);

/// What `value | name(arguments)` gives, of filters that need nothing but these.
Value filtered(const std::string& name, const Value& value, const Arguments& arguments);
bool tested(const std::string& name, const Value& value, const Arguments& arguments);
/// The method of a text or a dict. @throws Error{unsupported} where it is not known
Value called(const Value& object, const std::string& method, const Arguments& arguments);

}  // namespace tessera::chat
