// Runs a fuzz target without libFuzzer: every file of its corpus, then mutations of them.
//   fuzz_NAME CORPUS MUTATIONS     TESSERA_TEST_SEED chooses others; TESSERA_FUZZ_KEEP=FILE keeps
//                                  the input that runs, so that FILE is the culprit after a crash
#include <algorithm>
#include <filesystem>

#include "mutate.h"
#include "target.h"
#include "tessera/core/files.h"

namespace {

void run(const std::string& input, const std::string& name) {
  if (const char* path = std::getenv("TESSERA_FUZZ_KEEP")) tessera::write_file(path, input);
  // Without a copy of the exact size an overrun of the text would land in the string's own slack.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  try {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "%s: an exception left the reader: %s\n", name.c_str(), exception.what());
    std::abort();
  }
}

}  // namespace

int main(int argc, char** argv) {
  tessera::fuzz::require(argc == 3, "usage: fuzz_NAME CORPUS MUTATIONS");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry);
  std::sort(files.begin(), files.end());
  tessera::fuzz::require(!files.empty(), "the corpus is empty");
  std::vector<std::string> inputs;
  for (const auto& file : files) inputs.push_back(tessera::read_file(file));
  for (std::size_t i = 0; i < inputs.size(); ++i) run(inputs[i], files[i].filename());

  const std::uint64_t seed = tessera::test::test_seed();
  const long mutations = std::strtol(argv[2], nullptr, 10);
  std::printf("%zu files, %ld mutations, TESSERA_TEST_SEED=%llu\n", inputs.size(), mutations,
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  for (long i = 0; i < mutations; ++i) {
    // Each mutation has its own generator, so that one can be run again without those before it.
    tessera::Rng rng(seed + static_cast<std::uint64_t>(i));
    const auto last = static_cast<std::int64_t>(inputs.size()) - 1;
    const std::string& origin = inputs[static_cast<std::size_t>(rng.integer(0, last))];
    run(tessera::test::mutate(origin, rng), "mutation " + std::to_string(i));
  }
  return 0;
}
