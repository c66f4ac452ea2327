// model.safetensors.index.json of a folder with two shards. Whatever it says, only files of the
// folder are opened.
#include <filesystem>
#include <fstream>

#include "readable.h"
#include "target.h"
#include "weight_files.h"

namespace weight_index_target {
namespace {

// Written once; each input replaces the index.
const std::filesystem::path& folder_with_shards() {
  using tessera::test::safetensors_file;
  // Never destroyed, so that the last thing that runs can still remove it.
  static const auto* folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_fuzz.XXXXXX").string();
    tessera::fuzz::require(::mkdtemp(name.data()) != nullptr, "mkdtemp");
    const auto* made = new std::filesystem::path(name);
    std::ofstream(*made / "a.safetensors") << safetensors_file({{"x", "U8", {1}, "1"}});
    std::ofstream(*made / "b.safetensors") << safetensors_file({{"y", "U8", {1}, "1"}});
    std::atexit([] { std::filesystem::remove_all(folder_with_shards()); });
    return made;
  }();
  return *folder;
}

}  // namespace

TESSERA_FUZZ_TARGET(weight_index) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const std::filesystem::path& folder = folder_with_shards();
    std::ofstream(folder / "model.safetensors.index.json", std::ios::binary) << text;
    const auto weights = weights::Weights::open(folder.string());
    fuzz::require_readable(*weights);
    for (const std::string& file : weights->files()) {
      fuzz::require(
          std::filesystem::canonical(file).parent_path() == std::filesystem::canonical(folder),
          "a file outside the folder");
    }
  });
}

}  // namespace weight_index_target
