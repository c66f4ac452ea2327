// Packs of fuzz inputs, as files for libFuzzer and back.
//   fuzz_corpus unpack FOLDER SOURCE...   every input of the sources (corpus.h) as a file
//   fuzz_corpus pack TARGET.json FOLDER   adds to the pack the files whose contents neither it nor
//                                         the folder TARGET beside it has
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "corpus.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"

namespace {

using tessera::fuzz::Input;
using tessera::fuzz::read_corpus;

void unpack(const std::string& folder, const std::vector<std::string>& sources) {
  const std::vector<Input> inputs = read_corpus(sources);
  std::filesystem::create_directories(folder);
  for (const Input& input : inputs) tessera::write_file(folder + "/" + input.name, input.bytes);
  std::printf("%s: %zu inputs\n", folder.c_str(), inputs.size());
}

void pack(const std::string& path, const std::string& folder) {
  std::vector<Input> packed;
  if (std::filesystem::exists(path)) packed = read_corpus({path});
  std::vector<Input> known = packed;
  const std::string beside = std::filesystem::path(path).replace_extension();
  if (std::filesystem::exists(beside)) {
    for (const Input& input : read_corpus({beside})) known.push_back(input);
  }
  const std::size_t before = packed.size();
  for (const Input& found : read_corpus({folder})) {
    const bool has_it = std::any_of(known.begin(), known.end(),
                                    [&](const Input& input) { return input.bytes == found.bytes; });
    if (!has_it) packed.push_back(found);
  }
  tessera::write_file(path, tessera::fuzz::pack_text(packed));
  std::printf("%s: %zu inputs, %zu of them new\n", path.c_str(), packed.size(),
              packed.size() - before);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  try {
    if (args.size() >= 3 && args[0] == "unpack") {
      unpack(args[1], {args.begin() + 2, args.end()});
    } else if (args.size() == 3 && args[0] == "pack") {
      pack(args[1], args[2]);
    } else {
      std::fputs("usage: fuzz_corpus unpack FOLDER SOURCE... | pack TARGET.json FOLDER\n", stderr);
      return 2;
    }
  } catch (const tessera::Error& error) {
    std::fprintf(stderr, "fuzz_corpus: %s\n", error.what());
    return 1;
  }
  return 0;
}
