#pragma once

#include <lua.hpp>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lua_kit/guard.h"

/// Objects that scripts see: userdata that share a `const T`, with read-only fields and methods.
///
///     template <> const ObjectType<ModelShape>& tessera::lua_kit::object_type<ModelShape>() {
///       static const ObjectType<ModelShape> type{
///           .name = "tessera.Model",
///           .doc = "Architecture of a decoder",
///           .fields = {{"name", "string", "as registered",
///                       [](lua_State* L, const ModelShape& m) { push_text(L, m.name); }}},
///           .methods = {{"layer_bytes", guarded<layer_bytes>, "(bitwidth: integer): number",
///                        "Weights of one layer in bytes"}},
///           .summary = [](const ModelShape& m) { return "model " + m.name; }};
///       return type;
///     }
///
/// then `register_object<ModelShape>(L)` once, `push_object(L, std::make_shared<...>(...))`, and
/// `check_object<ModelShape>(L, 1, "ts.problem.model")`.
namespace tessera::lua_kit {

template <class T>
struct ObjectField {
  const char* name;
  std::string lua_type;               ///< LuaCATS type
  std::string doc;                    ///< with the unit
  void (*get)(lua_State*, const T&);  ///< pushes exactly one value
};

struct ObjectMethod {
  const char* name;
  lua_CFunction function;  ///< always `guarded<...>`; argument 1 is the object
  const char* signature;   ///< "(path: string): boolean", without self
  const char* doc;
};

template <class T>
struct ObjectType {
  const char* name;  ///< "tessera.Model"
  const char* doc;
  std::vector<ObjectField<T>> fields;
  std::vector<ObjectMethod> methods;            ///< `to_table` is added unless listed here
  std::string (*summary)(const T&);             ///< one line, what `tostring` gives
  std::string (*describe)(const T&) = nullptr;  ///< what `print` shows; default: the summary
  bool (*equal)(const T&, const T&) = nullptr;  ///< `==`; default: the same object
};

/// Specialised beside each binding.
template <class T>
const ObjectType<T>& object_type();

namespace detail {

/// What object.cpp needs to know of a type, without its T.
struct ObjectClass {
  const char* name;
  std::vector<std::string> fields;
  const std::vector<ObjectMethod>* methods;
  lua_CFunction index, to_table, text, full, equal, collect;
};

void register_class(lua_State* L, const ObjectClass& object_class);
/// Field number for the key at index 2, or -1 after pushing the method of that name.
/// @throws Error{invalid_argument} for an unknown name, with the nearest ones.
int find_member(lua_State* L, const char* type_name);
/// The userdata at `index` if it has the metatable `type_name`, else nullptr.
void* test_userdata(lua_State* L, int index, const char* type_name);
[[noreturn]] void throw_wrong_type(lua_State* L, int index, const char* type_name,
                                   const std::string& path);
/// Replaces kit objects inside the value on top by their `to_table`.
void plain_value(lua_State* L, int depth);
void attach_metatable(lua_State* L, const char* type_name);

template <class T>
using Held = std::shared_ptr<const T>;

}  // namespace detail

/// The object at `index`, or nullptr if it is something else.
template <class T>
const std::shared_ptr<const T>* test_object(lua_State* L, int index) {
  auto* held =
      static_cast<detail::Held<T>*>(detail::test_userdata(L, index, object_type<T>().name));
  return held != nullptr && *held != nullptr ? held : nullptr;
}

/// The object at `index`. @throws Error{invalid_argument} naming `path`, expected and got.
template <class T>
const std::shared_ptr<const T>& check_object(lua_State* L, int index, const std::string& path) {
  const std::shared_ptr<const T>* held = test_object<T>(L, index);
  if (held == nullptr) detail::throw_wrong_type(L, index, object_type<T>().name, path);
  return *held;
}

/// Pushes a userdata that shares `object`.
template <class T>
void push_object(lua_State* L, std::shared_ptr<const T> object) {
  void* memory = lua_newuserdata(L, sizeof(detail::Held<T>));
  new (memory) detail::Held<T>(std::move(object));
  detail::attach_metatable(L, object_type<T>().name);
}

namespace detail {

template <class T>
const T& self(lua_State* L) {
  return *check_object<T>(L, 1, "self");
}

template <class T>
int object_index(lua_State* L) {
  const int field = find_member(L, object_type<T>().name);
  if (field >= 0) object_type<T>().fields[static_cast<std::size_t>(field)].get(L, self<T>(L));
  return 1;
}

template <class T>
int object_to_table(lua_State* L) {
  const T& object = self<T>(L);
  const auto& fields = object_type<T>().fields;
  lua_createtable(L, 0, static_cast<int>(fields.size()));
  for (const ObjectField<T>& field : fields) {
    field.get(L, object);
    plain_value(L, 0);
    lua_setfield(L, -2, field.name);
  }
  return 1;
}

template <class T>
int object_text(lua_State* L) {
  const std::string text = object_type<T>().summary(self<T>(L));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

template <class T>
int object_full(lua_State* L) {
  const ObjectType<T>& type = object_type<T>();
  const std::string text = (type.describe != nullptr ? type.describe : type.summary)(self<T>(L));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

template <class T>
int object_equal(lua_State* L) {
  const std::shared_ptr<const T>* a = test_object<T>(L, 1);
  const std::shared_ptr<const T>* b = test_object<T>(L, 2);
  const auto equal = object_type<T>().equal;
  lua_pushboolean(
      L, a != nullptr && b != nullptr && (*a == *b || (equal != nullptr && equal(**a, **b))));
  return 1;
}

template <class T>
int object_collect(lua_State* L) {
  // Left empty rather than destroyed, so that a call after collection is an error, not a crash.
  if (auto* held = static_cast<Held<T>*>(test_userdata(L, 1, object_type<T>().name))) held->reset();
  return 0;
}

}  // namespace detail

/// Creates the metatable. Call once per state, before the first `push_object`.
template <class T>
void register_object(lua_State* L) {
  const ObjectType<T>& type = object_type<T>();
  detail::ObjectClass object_class{type.name,
                                   {},
                                   &type.methods,
                                   guarded<detail::object_index<T>>,
                                   guarded<detail::object_to_table<T>>,
                                   guarded<detail::object_text<T>>,
                                   guarded<detail::object_full<T>>,
                                   guarded<detail::object_equal<T>>,
                                   guarded<detail::object_collect<T>>};
  for (const ObjectField<T>& field : type.fields) object_class.fields.emplace_back(field.name);
  detail::register_class(L, object_class);
}

}  // namespace tessera::lua_kit
