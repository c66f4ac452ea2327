#include "pretty.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/guard.h"
#include "tessera/lua_kit/table.h"

namespace tessera::app {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kMaxDepth = 6;
constexpr int kMaxItems = 60;
constexpr int kMaxValues = 3000;  // of one whole value, nested tables included
constexpr std::size_t kMaxText = 2000;

bool is_name(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front()))) return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (std::size_t i = 0; i < std::min(text.size(), kMaxText); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", text[i]);
    } else if (c == '\n') {
      result += "\\n";
    } else if (c < 0x20 || c == 0x7F) {
      result += fmt::format("\\{:03}", c);
    } else {
      result += text[i];
    }
  }
  return result + (text.size() > kMaxText ? "\"..." : "\"");
}

class Printer {
 public:
  explicit Printer(lua_State* L) : L_(L) {}

  // Text of the value on top of the stack, which stays.
  std::string print(std::size_t indent) {
    luaL_checkstack(L_, 8, "value");
    if (++num_values_ > kMaxValues) return "...";
    switch (lua_type(L_, -1)) {
      case LUA_TSTRING:
        return quoted(lua_kit::check_text(L_, -1, "value"));
      case LUA_TNUMBER:
        return number(raw_number(-1));
      case LUA_TNIL:
        return "nil";
      case LUA_TBOOLEAN:
        return lua_toboolean(L_, -1) ? "true" : "false";
      default:
        break;
    }
    if (luaL_getmetafield(L_, -1, "__tostring")) {
      lua_pop(L_, 1);
      return by_tostring();
    }
    if (lua_istable(L_, -1)) return table(indent);
    return fmt::format("<{} {}>", luaL_typename(L_, -1), lua_topointer(L_, -1));
  }

 private:
  static std::string number(double value) { return format_number(value, 14); }
  // NaN and infinities as well.
  double raw_number(int index) const { return lua_kit::any_number(L_, index, "value"); }

  std::string by_tostring() {
    luaL_getmetafield(L_, -1, "__tostring");
    lua_pushvalue(L_, -2);
    const bool failed = lua_kit::protected_call(L_, 1, 1) != 0;
    std::string text = failed ? "<__tostring fails: " + lua_kit::read_error(L_, -1).message + ">"
                       : lua_type(L_, -1) == LUA_TSTRING ? lua_kit::check_text(L_, -1, "text")
                                                         : "<__tostring gives no string>";
    lua_pop(L_, 1);
    return text;
  }

  std::string table(std::size_t indent) {
    const void* identity = lua_topointer(L_, -1);
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) return "<cycle>";
    if (open_.size() >= kMaxDepth) return "{...}";
    open_.push_back(identity);
    const std::vector<std::string> items = print_items(indent + 2);
    open_.pop_back();
    if (items.empty()) return "{}";
    std::size_t width = indent + 4;
    bool one_line = true;
    for (const std::string& item : items) {
      width += item.size() + 2;
      one_line = one_line && item.find('\n') == std::string::npos;
    }
    const bool inline_fits = one_line && width <= kWidth;
    const std::string margin(indent, ' ');
    std::string text = inline_fits ? "{ " : "{\n";
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!inline_fits) text += margin + "  ";
      text += items[i];
      if (i + 1 < items.size()) text += inline_fits ? ", " : ",";
      if (!inline_fits) text += "\n";
    }
    return text + (inline_fits ? " }" : margin + "}");
  }

  // "1", "name = 2", "[true] = 3" of the table on top: items first, then keys in order.
  std::vector<std::string> print_items(std::size_t indent) {
    std::vector<std::string> items;
    const int length = static_cast<int>(lua_kit::border(L_, -1));
    for (int i = 1; i <= std::min(length, kMaxItems); ++i) {
      lua_kit::push_item(L_, -1, static_cast<std::size_t>(i), "value");
      items.push_back(print(indent));
      lua_pop(L_, 1);
    }
    int left_out = std::max(length - kMaxItems, 0);
    std::vector<std::pair<std::string, std::string>> fields;
    lua_kit::for_each_pair(L_, -1, "value", [&] {
      if (is_item_key(length)) return;
      if (static_cast<int>(fields.size()) >= kMaxItems) {
        ++left_out;
        return;
      }
      std::string value = print(indent);
      fields.emplace_back(key(), std::move(value));
    });
    std::sort(fields.begin(), fields.end());
    for (const auto& [name, value] : fields) items.push_back(name + " = " + value);
    if (left_out > 0) items.push_back(fmt::format("... ({} more)", left_out));
    return items;
  }

  bool is_item_key(int length) const {
    if (lua_type(L_, -2) != LUA_TNUMBER) return false;
    const double value = raw_number(-2);
    return value >= 1 && value <= length && value == static_cast<int>(value);
  }

  // The key below the value on top.
  std::string key() {
    if (lua_type(L_, -2) == LUA_TSTRING) {
      const std::string text = lua_kit::check_text(L_, -2, "key");
      return is_name(text) ? text : fmt::format("[{}]", quoted(text));
    }
    lua_pushvalue(L_, -2);
    std::string text = lua_istable(L_, -1) ? "<table>" : print(0);
    lua_pop(L_, 1);
    return fmt::format("[{}]", text);
  }

  lua_State* L_;
  std::vector<const void*> open_;
  int num_values_ = 0;
};

}  // namespace

std::string pretty(lua_State* L, int index) {
  const lua_kit::StackGuard guard(L);
  lua_pushvalue(L, index);
  return Printer(L).print(0);
}

}  // namespace tessera::app
