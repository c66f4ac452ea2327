#include "value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::chat {
namespace {

constexpr int kMostNested = 64;

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string quoted(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + quote;
}

void check_nested(int depth) {
  if (depth > kMostNested) throw Error(ErrorCode::out_of_range, "a value is nested too deep");
}

void dump_into(std::string& out, const Value& value, int indent, int depth) {
  check_nested(depth);
  const auto line = [&](int level) {
    if (indent >= 0) out += "\n" + std::string(static_cast<std::size_t>(indent * level), ' ');
  };
  const std::string comma = indent >= 0 ? "," : ", ";
  if (const List* list = value.list()) {
    if (list->empty()) return void(out += "[]");
    out += "[";
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += comma;
      line(depth + 1);
      dump_into(out, (*list)[i], indent, depth + 1);
    }
    line(depth);
    out += "]";
  } else if (const Dict* dict = value.dict()) {
    if (dict->empty()) return void(out += "{}");
    out += "{";
    for (std::size_t i = 0; i < dict->size(); ++i) {
      if (i > 0) out += comma;
      line(depth + 1);
      out += json_text((*dict)[i].first) + ": ";
      dump_into(out, (*dict)[i].second, indent, depth + 1);
    }
    line(depth);
    out += "}";
  } else if (const std::string* text = value.text()) {
    out += shown_json(*text);
  } else if (value.is_none()) {
    out += "null";
  } else if (const bool* boolean = value.boolean()) {
    out += *boolean ? "true" : "false";
  } else if (value.is_number()) {
    out += text_of(value);
  } else {
    refuse("tojson", "{} is no value of JSON", value.type_name());
  }
}

std::string repr_at(const Value& value, int depth);

std::string joined(const List& list, int depth) {
  std::string out;
  for (const Value& item : list) out += (out.empty() ? "" : ", ") + repr_at(item, depth + 1);
  return out;
}

std::string repr_at(const Value& value, int depth) {
  check_nested(depth);
  if (const std::string* text = value.text()) return quoted(*text);
  if (const List* list = value.list()) return "[" + joined(*list, depth) + "]";
  if (const Dict* dict = value.dict()) {
    std::string out;
    for (const auto& [key, item] : *dict)
      out += (out.empty() ? "" : ", ") + quoted(key) + ": " + repr_at(item, depth + 1);
    return "{" + out + "}";
  }
  if (const bool* boolean = value.boolean()) return *boolean ? "True" : "False";
  if (const std::int64_t* integer = value.integer()) return std::to_string(*integer);
  if (const double* real = value.real()) return real_text(*real);
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "";
  refuse("template", "{} is printed", value.type_name());
}

}  // namespace

Value Value::of(const Json& json) {
  if (json.is_null()) return None{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float() || (json.is_number_unsigned() && json.get<std::uint64_t>() >> 63 != 0))
    return json.get<double>();
  if (json.is_number()) return json.get<std::int64_t>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List list;
    for (const Json& item : json) list.push_back(of(item));
    return list;
  }
  Dict dict;
  for (const auto& [key, item] : json.items()) dict.emplace_back(key, of(item));
  return dict;
}

double Value::number() const {
  if (const bool* held = boolean()) return *held ? 1 : 0;
  if (const std::int64_t* held = integer()) return static_cast<double>(*held);
  return *real();
}

bool Value::is_true() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (text()) return !text()->empty();
  if (list()) return !list()->empty();
  if (dict()) return !dict()->empty();
  return true;
}

const char* Value::type_name() const {
  constexpr std::array kNames{"what is undefined", "none",       "a boolean", "an integer",
                              "a number",          "a text",     "a list",    "a dict",
                              "a function",        "a namespace"};
  return kNames.at(held_.index());
}

Value Arguments::at(std::size_t place, std::string_view name) const {
  if (place < values.size()) return values[place];
  const Value* found = find(named, name);
  return found ? *found : Value();
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string text_of(const Value& value) { return value.text() ? *value.text() : repr_at(value, 0); }

std::string repr_of(const Value& value) { return repr_at(value, 0); }

std::string dumped(const Value& value, int indent) {
  std::string out;
  dump_into(out, value, indent, 0);
  return out;
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.list() && b.list()) return std::ranges::equal(*a.list(), *b.list(), are_equal);
  if (a.dict() && b.dict()) {
    const auto is_in_b = [&](const auto& item) {
      const Value* other = find(*b.dict(), item.first);
      return other && are_equal(item.second, *other);
    };
    return a.dict()->size() == b.dict()->size() && std::ranges::all_of(*a.dict(), is_in_b);
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
  }
  if (a.text() && b.text()) {
    const int order = a.text()->compare(*b.text());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  refuse("template", "{} and {} have no order", a.type_name(), b.type_name());
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> all;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80 || all.empty()) all.emplace_back();
    all.back() += c;
  }
  return all;
}

List items_of(const Value& value) {
  if (value.list()) return *value.list();
  List items;
  if (value.is_undefined()) return items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : *dict) items.emplace_back(key);
  } else if (const std::string* text = value.text()) {
    for (std::string& c : characters_of(*text)) items.emplace_back(std::move(c));
  } else {
    refuse("template", "{} has no items", value.type_name());
  }
  return items;
}

bool contains(const Value& in, const Value& what) {
  if (const std::string* text = in.text()) {
    if (!what.text()) refuse("template", "{} cannot be in a text", what.type_name());
    return text->find(*what.text()) != std::string::npos;
  }
  if (const Dict* dict = in.dict()) return what.text() && find(*dict, *what.text());
  const List items = items_of(in);
  return std::ranges::any_of(items, [&](const Value& item) { return are_equal(item, what); });
}

}  // namespace tessera::chat
