// Runs a fuzz target without libFuzzer: every input of its corpus, then mutations of them.
//   fuzz_replay TARGET MUTATIONS SOURCE...
// A source is a folder or a pack (corpus.h). TESSERA_TEST_SEED chooses other mutations;
// TESSERA_FUZZ_KEEP=FILE keeps the input that runs, so that FILE is the culprit after a crash.
#include "corpus.h"
#include "mutate.h"
#include "target.h"
#include "tessera/core/files.h"

namespace {

void run(tessera::fuzz::Target target, const std::string& input, const std::string& name) {
  if (const char* path = std::getenv("TESSERA_FUZZ_KEEP")) tessera::write_file(path, input);
  // Without a copy of the exact size an overrun of the text would land in the string's own slack.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  try {
    target(bytes.data(), bytes.size());
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "%s: an exception left the reader: %s\n", name.c_str(), exception.what());
    std::abort();
  }
}

}  // namespace

int main(int argc, char** argv) {
  tessera::fuzz::require(argc >= 4, "usage: fuzz_replay TARGET MUTATIONS SOURCE...");
  const auto target = tessera::fuzz::targets().find(argv[1]);
  tessera::fuzz::require(target != tessera::fuzz::targets().end(), "there is no such target");
  const std::vector<tessera::fuzz::Input> inputs =
      tessera::fuzz::read_corpus({argv + 3, argv + argc});
  for (const tessera::fuzz::Input& input : inputs) run(target->second, input.bytes, input.name);

  const std::uint64_t seed = tessera::test::test_seed();
  const long mutations = std::strtol(argv[2], nullptr, 10);
  std::printf("%zu inputs, %d accepted; %ld mutations, TESSERA_TEST_SEED=%llu\n", inputs.size(),
              tessera::fuzz::num_accepted, mutations, static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  tessera::fuzz::require(tessera::fuzz::num_accepted > 0, "the reader accepts no input");
  for (long i = 0; i < mutations; ++i) {
    // Each mutation has its own generator, so that one can be run again without those before it.
    tessera::Rng rng(seed + static_cast<std::uint64_t>(i));
    const auto last = static_cast<std::int64_t>(inputs.size()) - 1;
    const std::string& origin = inputs[static_cast<std::size_t>(rng.integer(0, last))].bytes;
    run(target->second, tessera::test::mutate(origin, rng), "mutation " + std::to_string(i));
  }
  return 0;
}
