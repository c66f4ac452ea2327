#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::chat {

struct Token {
  enum class Kind {
    text,
    print_begin,
    print_end,
    block_begin,
    block_end,
    name,
    number,
    string,
    op,
    end
  };
  Kind kind = Kind::end;
  std::string text = {};
  int line = 1;

  bool is(Kind of, std::string_view what) const { return kind == of && text == what; }
  bool is_op(std::string_view what) const { return is(Kind::op, what); }
  bool is_name(std::string_view what) const { return is(Kind::name, what); }
};

/// With the rules for white space that transformers sets: trim_blocks, lstrip_blocks, and '-' and
/// '+' beside a tag. @throws Error{invalid_argument} with the line
std::vector<Token> tokens_of(const std::string& text);

/// "line 3: what"
[[noreturn]] void refuse_line(int line, const std::string& what);
[[noreturn]] void not_understood(int line, const std::string& what);

}  // namespace tessera::chat
