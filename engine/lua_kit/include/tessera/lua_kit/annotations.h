#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/option.h"
#include "tessera/lua_kit/object.h"

namespace tessera::lua_kit {

struct ParameterCard {
  std::string name, lua_type, doc;
};

/// A function that takes positional arguments, where an OptionTable alone does not describe it.
/// An OptionTable of the same name describes its last argument, `options`.
struct FunctionCard {
  std::string name;  ///< "ts.load_plan"
  std::string doc;
  std::vector<ParameterCard> parameters;
  std::string returns;  ///< LuaCATS type
};

/// An object that scripts see. Methods have their signature, "(path: string): boolean", as
/// lua_type.
struct ObjectCard {
  std::string name, doc;
  std::vector<ParameterCard> fields, methods;
};

/// Everything that can be looked up, filled by the bindings when they register. `tessera help`,
/// `help()` in the REPL and the LuaCATS file are all written from it.
class Reference {
 public:
  void add(const OptionTable& table);
  void add(FunctionCard card);
  void add(ObjectCard card);
  /// Keeps a text for as long as the reference, for option tables that are not literals.
  std::string_view keep(std::string text) { return *texts_.insert(std::move(text)).first; }
  const OptionTable& keep(OptionTable table) { return kept_.emplace_back(std::move(table)); }
  template <class T>
  void add_object() {
    const ObjectType<T>& type = object_type<T>();
    ObjectCard card{type.name, type.doc, {}, {}};
    for (const auto& f : type.fields) card.fields.push_back({f.name, f.lua_type, f.doc});
    for (const auto& m : type.methods) card.methods.push_back({m.name, m.signature, m.doc});
    add(std::move(card));
  }

  /// Names of functions, option tables and objects, sorted.
  std::vector<std::string> topics() const;
  /// One line for a topic, or "".
  std::string summary(const std::string& topic) const;
  /// Plain text for the terminal; absent for an unknown topic.
  std::optional<std::string> help(const std::string& topic) const;
  /// Everything as data: { functions, options, objects }, each by name. The reference page, the
  /// prompt and the tests read it.
  Json cards() const;
  /// The options of one table, as `cards` has them; empty where there is none of that name.
  Json options_of(const std::string& table) const;
  /// The LuaCATS file of all topics but the command line's. Deterministic.
  std::string luacats() const;

 private:
  std::set<std::string> texts_;
  std::deque<OptionTable> kept_;
  std::map<std::string, OptionTable> tables_;
  std::map<std::string, FunctionCard> functions_;
  std::map<std::string, ObjectCard> objects_;
};

}  // namespace tessera::lua_kit
