#include "tessera/run/module.h"

#include "tessera/lm/module.h"

namespace tessera::run {

const Module& module() {
  static const Module& loaded =
      *reinterpret_cast<ModuleEntry*>(lm::module_entry(kModule, kModuleEntry))();
  return loaded;
}

}  // namespace tessera::run
