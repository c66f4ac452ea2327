#include "bindings.h"

#include "plan_options.h"

namespace tessera::app {

void open_bindings(lua_State*, lua_kit::Reference& reference) { reference.add(plan_options()); }

}  // namespace tessera::app
