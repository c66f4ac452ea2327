#pragma once

#include <cstdint>
#include <lua.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/option.h"
#include "tessera/core/record.h"

/// Checked access to what a script passes. Nothing is rounded, converted or defaulted silently;
/// every message names the argument, the value given, and what is allowed.
/// All throw Error{invalid_argument}, or Error{out_of_range} for numbers beyond their limits.
namespace tessera::lua_kit {

/// Integer in [low, high]; refuses 3.7, NaN, infinity, strings and values beyond 2^53.
std::int64_t check_integer(lua_State* L, int index, std::string_view name, double low, double high,
                           std::string_view unit = {});
/// Finite number in [low, high].
double check_number(lua_State* L, int index, std::string_view name, double low, double high,
                    std::string_view unit = {});
/// A string (numbers are not strings here).
std::string check_text(lua_State* L, int index, std::string_view name);
/// A string that is UTF-8, for what ends up in JSON.
std::string check_utf8(lua_State* L, int index, std::string_view name);
bool check_boolean(lua_State* L, int index, std::string_view name);
/// Any number, NaN and infinities too.
double any_number(lua_State* L, int index, std::string_view name);
/// What push_lightuserdata left, never nullptr.
void* check_pointer(lua_State* L, int index, std::string_view name);
/// A string, or a number as Lua writes it.
std::string text_of_scalar(lua_State* L, int index);
/// A string, "" of anything else. Points into the value; never raises nor asks Lua for memory.
std::string_view text_or_empty(lua_State* L, int index);

/// "nil", "the number 3.7", "the string 'abc'", "a table", "a tessera.Model": for messages.
std::string describe_value(lua_State* L, int index);

/// Reads one Lua table of options as its OptionTable says:
///
///     Options options(L, 2, kPlanOptions, "ts.plan");
///     request.time_limit_s = options.number("time_limit_s");
///
/// The constructor checks everything that was given (unknown keys, types, ranges, required keys),
/// so the getters cannot fail except by asking for a name that is not in the table. The Lua table
/// must stay on the stack while the object lives.
class Options {
 public:
  enum class Keys {
    named,
    named_and_positional  ///< an array part is allowed too: ts.cluster { { "T4-16G", 3 } }
  };

  /// nil or nothing at `index` counts as an empty table unless an option is required.
  Options(lua_State* L, int index, const OptionTable& table, std::string path,
          Keys keys = Keys::named);

  bool given(std::string_view name) const;  ///< the script wrote it
  bool has(std::string_view name) const;    ///< given, or has a default

  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::string text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  std::string choice(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  /// A table as JSON. `absent` where none was given or it is empty: Lua has one empty table for
  /// both a list and an object.
  Json json(std::string_view name, Json absent) const;
  /// Pushes the value as given, else its default, else nil. Returns whether it is not nil.
  bool push(std::string_view name) const;
  /// Of an option that is there, given or by default, `read(L, index of its value, its path)`: what
  /// takes arguments of functions takes options as well.
  template <class Read>
  void read(std::string_view name, const Read& read) const {
    if (push(name)) read(L_, lua_gettop(L_), path_of(name));
    lua_pop(L_, 1);
  }
  /// The same into a value.
  template <class Argument, class Value>
  void read(std::string_view name, const Argument& argument, Value& value) const {
    read(name, [&](lua_State* L, int index, const std::string& path) {
      value = argument(L, index, path);
    });
  }

  /// @throws Error{invalid_argument} with `reason` if another option than `names` is given: what a
  /// file says cannot be said again beside it.
  void refuse_others(const std::vector<std::string_view>& names, std::string_view reason) const;

  int num_positional() const { return num_positional_; }
  void push_positional(int position) const;  ///< 1-based

  const std::string& path() const { return path_; }
  lua_State* state() const { return L_; }
  /// "ts.plan.time_limit_s", for messages of whoever checks further.
  std::string path_of(std::string_view name) const;
  FieldPath field_path() const { return {path_, "."}; }

 private:
  const OptionSpec& spec(std::string_view name) const;
  void check_keys(Keys keys);
  void check_value(const OptionSpec& spec) const;

  lua_State* L_;
  int index_;  ///< 0: no table was given
  const OptionTable& table_;
  std::string path_;
  int num_positional_ = 0;
};

}  // namespace tessera::lua_kit
