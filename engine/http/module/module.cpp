#include "tessera/http/module.h"

#include "tessera/lm/module.h"

namespace tessera::http {

const Module& module() {
  static const Module& loaded =
      *reinterpret_cast<ModuleEntry*>(lm::module_entry(kModule, kModuleEntry))();
  return loaded;
}

}  // namespace tessera::http
