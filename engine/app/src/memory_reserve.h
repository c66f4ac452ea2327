#pragma once

namespace tessera::app {

/// Keeps some memory back from now on, and gives it up when `new` first finds none: objects of the
/// engine that a script holds may take all that a sandbox has, and the error is still to be told.
void keep_memory_back();

}  // namespace tessera::app
