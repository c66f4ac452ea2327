// GGUF files. Every input gets the first word, so that the fuzzer need not find it.
#include "readable.h"
#include "target.h"
#include "tessera/weights/linears.h"

TESSERA_FUZZ_TARGET(gguf) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const fuzz::MemoryFile file("GGUF" +
                                std::string(text.substr(std::min<std::size_t>(4, text.size()))));
    const auto weights = weights::Weights::open(file.path());
    fuzz::require_readable(*weights);
    fuzz::require(weights->config().dump().size() < 64 * (text.size() + 64), "metadata that grew");
    (void)linears_of(*weights, model_of(*weights));
  });
}
