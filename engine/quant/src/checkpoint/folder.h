#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::quant {

/// Whether something stands where a result goes that may go when the new one is complete: an empty
/// folder, or with `overwrite` an earlier result of ours and nothing else.
/// @param inputs files and folders that the result is made from; "" stands for none
/// @throws Error{io} where the place is taken by anything else, Error{invalid_argument} where an
/// input lies in it
bool check_place(const std::string& path, bool overwrite, const std::vector<std::string>& inputs);

/// Of a file of weights, as transformers splits them.
inline constexpr std::uint64_t kMaxShardBytes = 5'000'000'000;

/// The file that says that a folder is a result of ours, and names what it holds under `files`.
inline constexpr const char* kResultFile = "tessera_quantisation.json";

/// Names of the files beside the weights: tokenizer, generation settings, licence. Not the weights
/// in any format, config.json, hidden files and folders.
/// @throws Error{invalid_argument} for a link out of the model's folder, unless it leads to the
/// blobs of a cache of Hugging Face
std::vector<std::string> files_to_copy(const std::string& model);

/// Names of all files in a folder, sorted.
std::vector<std::string> files_in(const std::string& folder);

/// Whether a tokenizer is among these files: of tokenizers, SentencePiece, or GPT-2's vocabulary.
bool holds_tokenizer(const std::vector<std::string>& files);

}  // namespace tessera::quant
