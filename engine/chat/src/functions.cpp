// Filters, tests and methods, with the meaning that Jinja's and Python's have.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "lexer.h"
#include "syntax.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::chat {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\f\v";
constexpr std::size_t kMostMade = 64 << 20;  // bytes of a text

using Filter = Value (*)(const Value& value, const Arguments& given);
using Test = bool (*)(const Value& value, const Arguments& given);

const std::string& text_at(const Value& value, std::string_view what) {
  if (value.is_undefined()) refuse(what, "{} is undefined", quote(value.undefined_name()));
  if (!value.text()) refuse(what, "{} where a text belongs", value.type_name());
  return *value.text();
}

std::int64_t integer_at(const Value& value, std::string_view what) {
  if (!value.integer()) refuse(what, "{} where an integer belongs", value.type_name());
  return *value.integer();
}

// ----------------------------------------------------------------------------------------- of
// texts

std::string stripped(const std::string& text, std::string_view chars, bool left, bool right) {
  std::string_view rest = text;
  const auto belongs = [&](char c) { return chars.find(c) != std::string_view::npos; };
  while (left && !rest.empty() && belongs(rest.front())) rest.remove_prefix(1);
  while (right && !rest.empty() && belongs(rest.back())) rest.remove_suffix(1);
  return std::string(rest);
}

std::string strip(const std::string& text, const Arguments& given, bool left, bool right) {
  const Value chars = given.at(0, "chars");
  const bool plain = chars.is_undefined() || chars.is_none();
  return stripped(text, plain ? kSpaces : std::string_view(text_at(chars, "strip")), left, right);
}

// Letters of ASCII alone; others are left, which Python would change.
std::string cased(std::string text, bool upper) {
  for (char& c : text) {
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string capitalised(const std::string& text) {
  std::string out = cased(text, false);
  if (!out.empty()) out[0] = cased(out.substr(0, 1), true)[0];
  return out;
}

std::string titled(const std::string& text) {
  std::string out = cased(text, false);
  bool inside = false;
  for (char& c : out) {
    const bool letter = c >= 'a' && c <= 'z';
    if (letter && !inside) c = static_cast<char>(c - 'a' + 'A');
    inside = letter || (inside && (c & 0x80) != 0);
  }
  return out;
}

Value replaced(const Value& value, const Arguments& given) {
  const std::string& text = text_at(value, "replace");
  const std::string from = text_at(given.at(0, "old"), "replace");
  const std::string to = text_at(given.at(1, "new"), "replace");
  const Value limit = given.at(2, "count");
  std::int64_t left = limit.integer() && *limit.integer() >= 0 ? *limit.integer() : kMostMade;
  if (from.empty()) refuse("replace", "the text to be replaced is empty");
  std::string out;
  std::size_t at = 0;
  for (; left > 0; --left) {
    const std::size_t next = text.find(from, at);
    if (next == std::string::npos) break;
    out += text.substr(at, next - at) + to;
    at = next + from.size();
    if (out.size() > kMostMade) throw Error(ErrorCode::out_of_range, "the text is too long");
  }
  return out + text.substr(at);
}

Value split(const std::string& text, const Arguments& given) {
  const Value by = given.at(0, "sep"), limit = given.at(1, "maxsplit");
  std::int64_t left = limit.integer() && *limit.integer() >= 0 ? *limit.integer() : kMostMade;
  List parts;
  std::size_t at = 0;
  if (by.is_undefined() || by.is_none()) {
    while ((at = text.find_first_not_of(kSpaces, at)) != std::string::npos) {
      std::size_t end = left-- > 0 ? text.find_first_of(kSpaces, at) : std::string::npos;
      if (end == std::string::npos) {
        const std::string rest = text.substr(at);
        parts.emplace_back(stripped(rest, kSpaces, false, true));
        break;
      }
      parts.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return parts;
  }
  const std::string& mark = text_at(by, "split");
  if (mark.empty()) refuse("split", "the separator is empty");
  while (left-- > 0) {
    const std::size_t end = text.find(mark, at);
    if (end == std::string::npos) break;
    parts.emplace_back(text.substr(at, end - at));
    at = end + mark.size();
  }
  parts.emplace_back(text.substr(at));
  return parts;
}

bool begins_or_ends(const std::string& text, const Arguments& given, bool begins) {
  const Value what = given.at(0, "prefix");
  const List all = what.list() ? *what.list() : List{what};
  return std::ranges::any_of(all, [&](const Value& one) {
    const std::string& part = text_at(one, begins ? "startswith" : "endswith");
    return begins ? text.starts_with(part) : text.ends_with(part);
  });
}

Value joined(const List& items, const std::string& between) {
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += between;
    out += text_of(items[i]);
    if (out.size() > kMostMade) throw Error(ErrorCode::out_of_range, "the text is too long");
  }
  return out;
}

Value join(const Value& value, const Arguments& given) {
  const Value between = given.at(0, "d"), field = given.at(1, "attribute");
  if (!field.is_undefined()) throw Error(ErrorCode::unsupported, "join by attribute");
  return joined(items_of(value), between.is_undefined() ? "" : text_at(between, "join"));
}

Value indented(const Value& value, const Arguments& given) {
  const std::string& text = text_at(value, "indent");
  const Value width = given.at(0, "width"), first = given.at(1, "first"),
              blank = given.at(2, "blank");
  const std::int64_t count = width.is_undefined() ? 4 : integer_at(width, "indent");
  if (count < 0 || count > 1000) refuse("indent", "{} blanks", count);
  const std::string margin(static_cast<std::size_t>(count), ' ');
  std::string out = first.is_true() ? margin : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const bool next_is_blank = i + 1 == text.size() || text[i + 1] == '\n';
    if (text[i] == '\n' && (blank.is_true() || !next_is_blank)) out += margin;
    if (out.size() > kMostMade) throw Error(ErrorCode::out_of_range, "the text is too long");
  }
  return out;
}

// ----------------------------------------------------------------------------------------- of
// others

Value length(const Value& value, const Arguments&) {
  if (value.is_undefined()) return std::int64_t{0};
  if (value.is_number() || value.is_none()) refuse("length", "of {}", value.type_name());
  return static_cast<std::int64_t>(items_of(value).size());
}

Value field_of(const Value& value, const std::string& path) {
  Value at = value;
  const Value parts = split(path, {.values = {std::string(".")}, .named = {}});
  for (const Value& part : *parts.list()) {
    const Value* found = at.dict() ? find(*at.dict(), *part.text()) : nullptr;
    at = found ? *found : Value::undefined(*part.text());
  }
  return at;
}

Arguments without_first(const Arguments& given, std::size_t count) {
  Arguments rest{.values = {}, .named = given.named};
  for (std::size_t i = count; i < given.values.size(); ++i) rest.values.push_back(given.values[i]);
  return rest;
}

// select, reject, selectattr, rejectattr.
Value chosen(const Value& value, const Arguments& given, bool by_field, bool keeps) {
  const std::size_t place = by_field ? 1 : 0;
  const std::string field = by_field ? text_at(given.at(0, "attribute"), "selectattr") : "";
  const bool has_test = given.values.size() > place;
  const std::string test = has_test ? text_at(given.values[place], "select") : "";
  if (has_test && !is_test(test)) throw Error(ErrorCode::unsupported, "the test " + quote(test));
  List kept;
  for (const Value& item : items_of(value)) {
    const Value looked_at = by_field ? field_of(item, field) : item;
    const bool holds =
        has_test ? tested(test, looked_at, without_first(given, place + 1)) : looked_at.is_true();
    if (holds == keeps) kept.push_back(item);
  }
  return kept;
}

Value mapped(const Value& value, const Arguments& given) {
  List made;
  const Value* field = find(given.named, "attribute");
  const Value* otherwise = find(given.named, "default");
  const std::string filter = field ? "" : text_at(given.at(0, "filter"), "map");
  if (!field && !is_filter(filter))
    throw Error(ErrorCode::unsupported, "the filter " + quote(filter));
  for (const Value& item : items_of(value)) {
    Value one = field ? field_of(item, text_at(*field, "map"))
                      : filtered(filter, item, without_first(given, 1));
    if (otherwise && one.is_undefined()) one = *otherwise;
    made.push_back(std::move(one));
  }
  return made;
}

Value ends_of(const Value& value, bool first) {
  const List items = items_of(value);
  if (items.empty()) return Value::undefined("the first of nothing");
  return first ? items.front() : items.back();
}

Value pairs_of(const Value& value) {
  if (value.is_undefined()) return List{};
  if (!value.dict()) refuse("items", "of {}", value.type_name());
  List pairs;
  for (const auto& [key, item] : *value.dict()) pairs.emplace_back(List{key, item});
  return pairs;
}

Value sorted_pairs(const Value& value) {
  List pairs = *pairs_of(value).list();
  std::ranges::stable_sort(pairs, [](const Value& a, const Value& b) {
    return lower(*a.list()->front().text()) < lower(*b.list()->front().text());
  });
  return pairs;
}

Value reversed(const Value& value) {
  List items = items_of(value);
  std::ranges::reverse(items);
  return value.text() ? joined(items, "") : Value(items);
}

Value unique(const Value& value) {
  List kept;
  for (const Value& item : items_of(value)) {
    if (!contains(kept, item)) kept.push_back(item);
  }
  return kept;
}

Value otherwise(const Value& value, const Arguments& given) {
  const bool falls = value.is_undefined() || (given.at(1, "boolean").is_true() && !value.is_true());
  if (!falls) return value;
  const Value instead = given.at(0, "default_value");
  return instead.is_undefined() ? Value(std::string()) : instead;
}

Value to_integer(const Value& value, const Arguments& given) {
  if (value.is_number()) {
    const double number = std::trunc(value.number());
    if (std::fabs(number) < 9e18) return static_cast<std::int64_t>(number);
  }
  if (value.text()) {
    const std::string text = stripped(*value.text(), kSpaces, true, true);
    const bool figures =
        !text.empty() && text.size() < 18 &&
        text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == std::string::npos &&
        text != "-";
    if (figures) return static_cast<std::int64_t>(std::stoll(text));
  }
  const Value fallback = given.at(0, "default");
  return fallback.is_undefined() ? Value(std::int64_t{0}) : fallback;
}

Value to_json_text(const Value& value, const Arguments& given) {
  for (const auto& [name, setting] : given.named) {
    const bool is_plain = name == "indent" || (name == "ensure_ascii" && !setting.is_true());
    if (!is_plain) throw Error(ErrorCode::unsupported, "tojson with " + quote(name));
  }
  // transformers' own tojson: (x, ensure_ascii, indent, ...)
  const Value indent = given.named.empty() ? given.at(1, "indent") : given.at(1, "indent");
  const std::int64_t width =
      indent.is_undefined() || indent.is_none() ? -1 : integer_at(indent, "tojson");
  if (width > 64) refuse("tojson", "an indent of {}", width);
  return dumped(value, static_cast<int>(width));
}

const std::map<std::string, Filter, std::less<>>& all_filters() {
  using A = const Arguments&;
  using V = const Value&;
  static const std::map<std::string, Filter, std::less<>> all{
      {"trim", [](V v, A a) -> Value { return strip(text_of(v), a, true, true); }},
      {"length", length},
      {"count", length},
      {"default", otherwise},
      {"d", otherwise},
      {"upper", [](V v, A) -> Value { return cased(text_of(v), true); }},
      {"lower", [](V v, A) -> Value { return cased(text_of(v), false); }},
      {"capitalize", [](V v, A) -> Value { return capitalised(text_of(v)); }},
      {"title", [](V v, A) -> Value { return titled(text_of(v)); }},
      {"first", [](V v, A) { return ends_of(v, true); }},
      {"last", [](V v, A) { return ends_of(v, false); }},
      {"join", join},
      {"list", [](V v, A) -> Value { return items_of(v); }},
      {"string", [](V v, A) -> Value { return text_of(v); }},
      {"safe", [](V v, A) -> Value { return v; }},
      {"int", to_integer},
      {"replace", [](V v, A a) { return replaced(Value(text_of(v)), a); }},
      {"items", [](V v, A) { return pairs_of(v); }},
      {"dictsort", [](V v, A) { return sorted_pairs(v); }},
      {"map", mapped},
      {"select", [](V v, A a) { return chosen(v, a, false, true); }},
      {"reject", [](V v, A a) { return chosen(v, a, false, false); }},
      {"selectattr", [](V v, A a) { return chosen(v, a, true, true); }},
      {"rejectattr", [](V v, A a) { return chosen(v, a, true, false); }},
      {"indent", indented},
      {"reverse", [](V v, A) { return reversed(v); }},
      {"unique", [](V v, A) { return unique(v); }},
      {"tojson", to_json_text}};
  return all;
}

bool is_whole(const Value& value) { return value.integer() != nullptr; }

const std::map<std::string, Test, std::less<>>& all_tests() {
  using A = const Arguments&;
  using V = const Value&;
  static const std::map<std::string, Test, std::less<>> all{
      {"defined", [](V v, A) { return !v.is_undefined(); }},
      {"undefined", [](V v, A) { return v.is_undefined(); }},
      {"none", [](V v, A) { return v.is_none(); }},
      {"string", [](V v, A) { return v.text() != nullptr; }},
      {"mapping", [](V v, A) { return v.dict() != nullptr; }},
      {"iterable", [](V v, A) { return v.list() || v.dict() || v.text() || v.is_undefined(); }},
      {"sequence", [](V v, A) { return v.list() || v.dict() || v.text() || v.is_undefined(); }},
      {"number", [](V v, A) { return v.is_number(); }},
      {"integer", [](V v, A) { return is_whole(v); }},
      {"float", [](V v, A) { return v.real() != nullptr; }},
      {"boolean", [](V v, A) { return v.boolean() != nullptr; }},
      {"true", [](V v, A) { return v.boolean() && *v.boolean(); }},
      {"false", [](V v, A) { return v.boolean() && !*v.boolean(); }},
      {"callable", [](V v, A) { return v.function() != nullptr; }},
      {"odd", [](V v, A) { return integer_at(v, "odd") % 2 != 0; }},
      {"even", [](V v, A) { return integer_at(v, "even") % 2 == 0; }},
      {"divisibleby",
       [](V v, A a) {
         const std::int64_t by = integer_at(a.at(0, "num"), "divisibleby");
         if (by == 0 || by == -1) return by == -1;
         return integer_at(v, "divisibleby") % by == 0;
       }},
      {"equalto", [](V v, A a) { return are_equal(v, a.at(0, "other")); }},
      {"eq", [](V v, A a) { return are_equal(v, a.at(0, "other")); }},
      {"sameas", [](V v, A a) { return are_equal(v, a.at(0, "other")); }},
      {"ne", [](V v, A a) { return !are_equal(v, a.at(0, "other")); }},
      {"lt", [](V v, A a) { return compare(v, a.at(0, "other")) < 0; }},
      {"gt", [](V v, A a) { return compare(v, a.at(0, "other")) > 0; }},
      {"in", [](V v, A a) { return contains(a.at(0, "seq"), v); }}};
  return all;
}

Value called_on_text(const std::string& text, const std::string& method, const Arguments& given) {
  if (method == "strip") return strip(text, given, true, true);
  if (method == "lstrip") return strip(text, given, true, false);
  if (method == "rstrip") return strip(text, given, false, true);
  if (method == "split") return split(text, given);
  if (method == "startswith") return begins_or_ends(text, given, true);
  if (method == "endswith") return begins_or_ends(text, given, false);
  if (method == "replace") return replaced(text, given);
  if (method == "upper") return cased(text, true);
  if (method == "lower") return cased(text, false);
  if (method == "capitalize") return capitalised(text);
  if (method == "title") return titled(text);
  if (method == "join") return joined(items_of(given.at(0, "iterable")), text);
  throw Error(ErrorCode::unsupported,
              fmt::format("the method {} of a text is not understood", quote(method)));
}

Value called_on_dict(const Dict& dict, const std::string& method, const Arguments& given) {
  if (method == "items") return pairs_of(dict);
  if (method == "keys") return items_of(dict);
  if (method == "values") {
    List values;
    for (const auto& [key, item] : dict) values.push_back(item);
    return values;
  }
  if (method == "get") {
    const Value* found = find(dict, text_at(given.at(0, "key"), "get"));
    const Value fallback = given.at(1, "default");
    return found ? *found : fallback.is_undefined() ? Value(Value::None{}) : fallback;
  }
  throw Error(ErrorCode::unsupported,
              fmt::format("the method {} of a dict is not understood", quote(method)));
}

}  // namespace

bool is_filter(const std::string& name) { return all_filters().contains(name); }
bool is_test(const std::string& name) { return all_tests().contains(name); }

Value filtered(const std::string& name, const Value& value, const Arguments& arguments) {
  return all_filters().find(name)->second(value, arguments);
}

bool tested(const std::string& name, const Value& value, const Arguments& arguments) {
  return all_tests().find(name)->second(value, arguments);
}

Value called(const Value& object, const std::string& method, const Arguments& arguments) {
  if (object.is_undefined()) refuse("template", "{} is undefined", quote(object.undefined_name()));
  if (object.text()) return called_on_text(*object.text(), method, arguments);
  if (object.dict()) return called_on_dict(*object.dict(), method, arguments);
  throw Error(ErrorCode::unsupported, fmt::format("the method {} of {} is not understood",
                                                  quote(method), object.type_name()));
}

}  // namespace tessera::chat
