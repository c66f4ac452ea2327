// Files of torch.save: the archive, and its pickle, of which nothing is executed. Tensors may share
// storages.
#include "readable.h"
#include "target.h"
#include "tessera/weights/weights.h"

TESSERA_FUZZ_TARGET(torch_file) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const fuzz::MemoryFile file("PK\x03\x04" +
                                std::string(text.substr(std::min<std::size_t>(4, text.size()))));
    const auto weights = weights::Weights::open(file.path());
    fuzz::require_readable(*weights, fuzz::Bytes::shared);
  });
}
