#include "tessera/lm/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lm/module.h"

namespace tessera::lm {
namespace {

// Beside the program in a build and where it is installed.
std::string module_path() {
  if (const char* named = std::getenv("TESSERA_MODELS_MODULE")) return named;
  char program[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0) throw Error(ErrorCode::io, "cannot find the program's own path in /proc");
  const std::filesystem::path path(std::string(program, static_cast<std::size_t>(length)));
  return path.parent_path().parent_path() / "lib" / "tessera" / "tessera_models.so";
}

const Module& load_module() {
  const std::string path = module_path();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ErrorCode::unsupported,
                "this build plans and does not run models: there is no " + quote(path, 300) +
                    "; bash scripts/quickstart.sh --models installs what it needs and builds it",
                path);
  }
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ErrorCode::io, std::string("the module of models cannot be loaded: ") + ::dlerror(),
                path);
  }
  auto* entry = reinterpret_cast<ModuleEntry*>(::dlsym(handle, kModuleEntry));
  if (entry == nullptr) {
    throw Error(ErrorCode::io, quote(path, 300) + " is not the module of models of this program",
                path);
  }
  return *entry();
}

}  // namespace

const Module& module() {
  static const Module& loaded = load_module();  // tried again where it threw
  return loaded;
}

}  // namespace tessera::lm
