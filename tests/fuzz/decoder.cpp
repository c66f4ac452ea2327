// What says which decoder some weights are. The first line names a model of
// tests/reference/decoders; what follows is its config.json, or of gguf/NAME all of the file before
// the data of its tensors. What is accepted runs.
#include "decoder.h"

#include "input_folder.h"
#include "target.h"
#include "tessera/core/files.h"

namespace decoder_target {
namespace {

using tessera::fuzz::Folder;

const std::string kDecoders = TESSERA_SOURCE_DIR "/tests/reference/decoders/";

// A name of the list alone, so that no input leads out of the folder.
bool is_known(const std::string& name) {
  static const auto* known = [] {
    auto* names = new std::set<std::string>;
    for (const char* part : {"", "gguf/"}) {
      for (const auto& entry : std::filesystem::directory_iterator(kDecoders + part))
        names->insert(part + entry.path().filename().string());
    }
    return names;
  }();
  return known->count(name) > 0;
}

std::string with_config(const std::string& name, std::string_view config) {
  static const Folder folder;
  const std::filesystem::path weights = folder.path() + "/model.safetensors";
  std::filesystem::remove(weights);
  std::filesystem::create_symlink(kDecoders + name + "/model.safetensors", weights);
  folder.file("config.json", config);
  return folder.path();
}

// The data of the file as it is behind another header.
std::string with_header(const std::string& name, std::string_view header) {
  static const Folder folder;
  static std::map<std::string, std::string> data_of;
  std::string& data = data_of[name];
  const std::string whole = kDecoders + name + "/model.gguf";
  if (data.empty()) {
    const auto weights = tessera::weights::Weights::open(whole);
    data = tessera::read_file(whole).substr(weights->tensors().front().offset_bytes);
  }
  std::string file(header);
  file.resize((file.size() + 31) / 32 * 32);
  return folder.file("a.gguf", file + data);
}

void run(const tessera::lm::LanguageModel& model) {
  const std::int64_t most = std::min<std::int64_t>(3, model.shape().max_context_tokens);
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(most), 0), table = {1, 0, 2};
  const auto cache = model.make_cache(3, 1);
  std::vector<float> logits(static_cast<std::size_t>(model.shape().vocab_size));
  const tessera::lm::SequenceStep step{
      .tokens = tokens, .context_tokens = 0, .block_table = table, .num_logits = 1};
  model.step({&step, 1}, *cache, logits);
}

}  // namespace

TESSERA_FUZZ_TARGET(decoder) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view input) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string name(input.substr(0, end));
    if (!is_known(name)) refuse("input", "it names no model");
    const std::string_view rest = input.substr(std::min(end + 1, input.size()));
    const bool gguf = name.rfind("gguf/", 0) == 0;
    lm::LoadRequest request{.path = gguf ? with_header(name, rest) : with_config(name, rest)};
    request.num_threads = 1;
    const auto model = lm::Decoder::load(request, lm::make_cpu_backend(1));
    fuzz::require(!model->describe_layer(0).empty(), "a layer without a description");
    run(*model);
  });
}

}  // namespace decoder_target
