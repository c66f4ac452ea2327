// Headers of safetensors files. What is accepted lies in the file, without overlap, and can be
// read.
#include "readable.h"
#include "target.h"
#include "tessera/weights/weights.h"

TESSERA_FUZZ_TARGET(safetensors) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const fuzz::MemoryFile file(text);
    const auto weights = weights::Weights::open(file.path());
    fuzz::require_readable(*weights);
  });
}
