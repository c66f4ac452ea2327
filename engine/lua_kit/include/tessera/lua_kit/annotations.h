#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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

/// Everything that can be looked up, filled by the bindings when they register. `tessera help`,
/// `help()` in the REPL and the LuaCATS file are all written from it.
class Reference {
 public:
  void add(const OptionTable& table);
  void add(FunctionCard card);
  /// Keeps a text for as long as the reference, for option tables that are not literals.
  std::string_view keep(std::string text) { return *texts_.insert(std::move(text)).first; }
  template <class T>
  void add_object() {
    const ObjectType<T>& type = object_type<T>();
    ObjectCard card{type.name, type.doc, {}, {}};
    for (const auto& f : type.fields) card.fields.push_back({f.name, f.lua_type, f.doc});
    for (const auto& m : type.methods) card.methods.push_back({m.name, m.signature, m.doc});
    objects_[type.name] = std::move(card);
  }

  /// Names of functions, option tables and objects, sorted.
  std::vector<std::string> topics() const;
  /// One line for a topic, or "".
  std::string summary(const std::string& topic) const;
  /// Plain text for the terminal; absent for an unknown topic.
  std::optional<std::string> help(const std::string& topic) const;
  /// The LuaCATS file of all topics. Deterministic.
  std::string luacats() const;

 private:
  struct ObjectCard {
    std::string name, doc;
    std::vector<ParameterCard> fields;
    std::vector<ParameterCard> methods;  ///< lua_type holds the signature
  };

  std::set<std::string> texts_;
  std::map<std::string, OptionTable> tables_;
  std::map<std::string, FunctionCard> functions_;
  std::map<std::string, ObjectCard> objects_;
};

}  // namespace tessera::lua_kit
