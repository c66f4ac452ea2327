#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iomanip>
#include <string>
#include <vector>

#include "decoder.h"
#include "tessera/core/error.h"
#include "tessera/weights/weights.h"
#include "weight_files.h"

// Tiny models of every family and what Hugging Face transformers made of them: see
// tests/reference/decoders/README.md.
namespace tessera::lm {

inline std::string decoder_folder(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/reference/decoders/" + name;
}

/// What to open in it.
inline std::string decoder_path(const std::string& name) {
  return decoder_folder(name) + (name.starts_with("gguf/") ? "/model.gguf" : "");
}

inline std::shared_ptr<const Decoder> load_decoder(LoadRequest request) {
  if (request.num_threads == 0) request.num_threads = 2;
  return Decoder::load(request, make_cpu_backend(request.num_threads));
}

/// All that a file of tensors holds, to write another.
inline std::vector<test::StoredTensor> stored_tensors(const std::string& path) {
  const auto weights = weights::Weights::open(path);
  std::vector<test::StoredTensor> tensors;
  for (const weights::TensorInfo& tensor : weights->tensors()) {
    const auto bytes = weights->bytes(tensor);
    tensors.push_back({tensor.name,
                       std::string(weights::to_string(tensor.dtype)),
                       tensor.shape,
                       {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  return tensors;
}

struct Expected {
  std::vector<std::int32_t> ids;
  std::vector<float> logits;  ///< [ids][vocab]
};

/// The two prompts of a folder.
/// Of a GGUF file without logits of its own, those of the folder that it was made from.
inline std::vector<Expected> expected_of(std::string folder) {
  constexpr std::string_view kIn = "/gguf/";
  const std::size_t at = folder.rfind(kIn);
  if (at != std::string::npos && !std::filesystem::exists(folder + "/expected.safetensors"))
    folder.replace(at, kIn.size(), "/");
  const auto file = weights::Weights::open(folder + "/expected.safetensors");
  std::vector<Expected> found;
  for (const std::string index : {"0", "1"}) {
    Expected one;
    const auto read = [&](const std::string& name) {
      const auto& tensor = file->require(name);
      std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
      weights::read_f32(*file, tensor, 0, values);
      return values;
    };
    for (const float id : read("input_ids." + index)) one.ids.push_back(static_cast<int>(id));
    one.logits = read("logits." + index);
    found.push_back(std::move(one));
  }
  return found;
}

/// Blocks [first, first + count) in falling order: no table may be taken for the identity.
inline std::vector<std::int32_t> blocks_down(int first, int count) {
  std::vector<std::int32_t> blocks;
  for (int i = count; i > 0; --i) blocks.push_back(first + i - 1);
  return blocks;
}

/// Logits of all tokens, the prompt cut into pieces of `piece` tokens.
inline std::vector<float> run_in_pieces(const LanguageModel& model,
                                        const std::vector<std::int32_t>& ids, std::size_t piece,
                                        std::int64_t block_size = 4) {
  const auto length = static_cast<std::int64_t>(ids.size());
  const auto num_blocks = (length + block_size - 1) / block_size;
  const auto cache = model.make_cache(num_blocks, block_size);
  const auto table = blocks_down(0, static_cast<int>(num_blocks));
  std::vector<float> logits;
  for (std::size_t first = 0; first < ids.size(); first += piece) {
    const std::size_t count = std::min(piece, ids.size() - first);
    const SequenceStep step{.tokens = std::span(ids).subspan(first, count),
                            .context_tokens = static_cast<std::int64_t>(first),
                            .block_table = table,
                            .num_logits = static_cast<std::int64_t>(count)};
    std::vector<float> own(count * static_cast<std::size_t>(model.shape().vocab_size));
    model.step({&step, 1}, *cache, own);
    logits.insert(logits.end(), own.begin(), own.end());
  }
  return logits;
}

/// Passes where all numbers are the same; says how many are not, and the first and the farthest of
/// them, since GoogleTest prints the first 32 of a list in six digits.
inline testing::AssertionResult same_numbers(const std::vector<float>& got,
                                             const std::vector<float>& wanted) {
  if (got.size() != wanted.size())
    return testing::AssertionFailure() << got.size() << " numbers, not " << wanted.size();
  std::size_t count = 0, first = 0, last = 0, farthest = 0;
  const auto apart = [&](std::size_t i) { return std::abs(got[i] - wanted[i]); };
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i]) continue;
    if (count++ == 0) first = farthest = i;
    last = i;
    if (!(apart(i) <= apart(farthest))) farthest = i;
  }
  if (count == 0) return testing::AssertionSuccess();
  auto failure = testing::AssertionFailure();
  failure << std::setprecision(9) << count << " of " << got.size() << " numbers differ, from "
          << first << " to " << last << ":";
  for (const std::size_t i : {first, farthest})
    failure << " [" << i << "] is " << got[i] << ", not " << wanted[i] << ";";
  return failure;
}

/// Largest difference over the largest number expected.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return INFINITY;
  double error = 0, most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!(difference <= error)) error = difference;  // a NaN stays
    most = std::max(most, std::abs(static_cast<double>(expected[i])));
  }
  return error / most;
}

/// The message of what is asked of a decoder that does not have it.
template <class F>
std::string refusal(F&& ask) {
  try {
    ask();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace tessera::lm
