#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera::linear {

/// Bytes at the start of a cache line, zeros. Pieces of a model lie one behind the other in slabs
/// of huge pages: a token reads all weights once, and in small pages what translates their
/// addresses and fetches ahead begins anew every 4 KiB, which takes a tenth of the time. A slab is
/// given back when its last piece is gone.
/// @throws std::bad_alloc
std::shared_ptr<std::byte> weight_memory(std::int64_t bytes);

}  // namespace tessera::linear
