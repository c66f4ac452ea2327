#include "tessera/lm/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lm/module_entry.h"

namespace tessera::lm {
namespace {

// "TESSERA_MODELS_MODULE" of "tessera_models"
std::string variable_of(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name + "_MODULE";
}

std::string path_of(const std::string& name) {
  if (const char* named = std::getenv(variable_of(name).c_str())) return named;
  return modules_folder() + "/" + name + ".so";
}

/// The Debian package that brings a module (scripts/package).
const char* package_of(const std::string& name) {
  return name == kTorchModule ? "tessera-torch" : "tessera-models";
}

}  // namespace

std::string modules_folder() {
  char program[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0) throw Error(ErrorCode::io, "cannot find the program's own path in /proc");
  const std::filesystem::path path(std::string(program, static_cast<std::size_t>(length)));
  return (path.parent_path().parent_path() / "lib" / "tessera").string();
}

bool has_module(const std::string& name) {
  std::error_code ignored;
  return std::filesystem::exists(path_of(name), ignored);
}

void* module_entry(const std::string& name, const char* entry) {
  const std::string path = path_of(name);
  if (!has_module(name)) {
    throw Error(ErrorCode::unsupported,
                "this build plans and does not run models: there is no " + quote(path, 300) +
                    "; the package " + package_of(name) +
                    " has it, and bash scripts/quickstart.sh --models installs what it needs and "
                    "builds it",
                path);
  }
  // What a module brings along stays its own: two of them link libraries that must not meet.
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ErrorCode::io, std::string("the module of models cannot be loaded: ") + ::dlerror(),
                path);
  }
  void* found = ::dlsym(handle, (entry + std::string(TESSERA_MODULE_VERSION)).c_str());
  if (found == nullptr) {
    throw Error(ErrorCode::io, quote(path, 300) + " is no module of this version of the program",
                path);
  }
  return found;
}

const Module& module() {
  // Tried again where it threw.
  static const Module& loaded =
      *reinterpret_cast<ModuleEntry*>(module_entry("tessera_models", kModuleEntry))();
  return loaded;
}

}  // namespace tessera::lm
