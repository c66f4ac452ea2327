#include "arithmetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lexer.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::chat {
namespace {

Value repeated(const Value& text, const Value& times, int line) {
  if (!times.integer()) refuse_line(line, "a text is repeated by an integer");
  const std::int64_t count = std::max<std::int64_t>(*times.integer(), 0);
  if (count > 0 && text.text()->size() > kMostText / static_cast<std::size_t>(count))
    throw Error(ErrorCode::out_of_range, "the text is too long");
  std::string out;
  for (std::int64_t i = 0; i < count && !text.text()->empty(); ++i) out += *text.text();
  return out;
}

Value arithmetic(const std::string& op, const Value& a, const Value& b, int line) {
  if ((op == "/" || op == "//" || op == "%") && b.number() == 0) refuse_line(line, "by zero");
  if (op == "/") return a.number() / b.number();
  if (a.real() || b.real()) {
    const double x = a.number(), y = b.number();
    if (op == "+") return x + y;
    if (op == "-") return x - y;
    if (op == "*") return x * y;
    return op == "//" ? std::floor(x / y) : x - y * std::floor(x / y);
  }
  const auto whole = [](const Value& v) { return v.integer() ? *v.integer() : *v.boolean(); };
  const std::int64_t x = whole(a), y = whole(b);
  std::int64_t result = 0;
  bool overflows = false;
  if (op == "+") overflows = __builtin_add_overflow(x, y, &result);
  if (op == "-") overflows = __builtin_sub_overflow(x, y, &result);
  if (op == "*") overflows = __builtin_mul_overflow(x, y, &result);
  if (overflows || (y == -1 && x == std::numeric_limits<std::int64_t>::min()))
    throw Error(ErrorCode::out_of_range, "a number is too large");
  if (op == "//" || op == "%") {
    const std::int64_t rest = x % y, correction = rest != 0 && (rest < 0) != (y < 0) ? 1 : 0;
    result = op == "//" ? x / y - correction : rest + correction * y;
  }
  return result;
}

}  // namespace

Value computed(const std::string& op, const Value& a, const Value& b, int line) {
  for (const Value* part : {&a, &b}) {
    if (part->is_undefined())
      refuse_line(line, fmt::format("{} is undefined", quote(part->undefined_name())));
  }
  if (op == "+" && a.text() && b.text()) return *a.text() + *b.text();
  if (op == "+" && a.list() && b.list()) {
    List both = *a.list();
    both.insert(both.end(), b.list()->begin(), b.list()->end());
    if (std::ssize(both) > kMostItems) throw Error(ErrorCode::out_of_range, "a list is too long");
    return both;
  }
  if (op == "*" && (a.text() || b.text()))
    return repeated(a.text() ? a : b, a.text() ? b : a, line);
  if (!a.is_number() || !b.is_number())
    refuse_line(line, fmt::format("{} {} {}", a.type_name(), op, b.type_name()));
  return arithmetic(op, a, b, line);
}

bool holds(const std::string& word, const Value& a, const Value& b) {
  if (word == "==") return are_equal(a, b);
  if (word == "!=") return !are_equal(a, b);
  if (word == "in") return contains(b, a);
  if (word == "not in") return !contains(b, a);
  const int order = compare(a, b);
  if (word == "<") return order < 0;
  if (word == ">") return order > 0;
  return word == "<=" ? order <= 0 : order >= 0;
}

Value range_of(const Arguments& given) {
  std::int64_t numbers[3] = {0, 0, 1};
  const std::size_t count = given.values.size();
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 3); ++i) {
    if (!given.values[i].integer()) refuse("range", "it takes integers");
    numbers[count == 1 ? 1 : i] = *given.values[i].integer();
  }
  const auto [first, last, by] = numbers;
  if (count == 0 || count > 3 || by == 0) refuse("range", "it takes one to three integers");
  List list;
  for (std::int64_t i = first; by > 0 ? i < last : i > last; i += by) {
    if (std::ssize(list) == kMostItems)
      throw Error(ErrorCode::out_of_range, "range: it has too many items");
    list.emplace_back(i);
  }
  return list;
}

}  // namespace tessera::chat
