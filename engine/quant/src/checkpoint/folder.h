#pragma once

#include <string>
#include <vector>

namespace tessera::quant {

/// Whether something stands where a result goes that may go when the new one is complete: an empty
/// folder, or with `overwrite` an earlier result of ours.
/// @throws Error{io} where the place is taken by anything else
bool check_place(const std::string& path, bool overwrite);

/// The file that says that a folder is a result of ours.
inline constexpr const char* kResultFile = "tessera_quantisation.json";

/// Names of the files beside the weights: tokenizer, generation settings, licence. Not the weights
/// in any format, config.json, hidden files and folders.
std::vector<std::string> files_to_copy(const std::string& model);

/// Whether a tokenizer is among these files: of tokenizers, SentencePiece, or GPT-2's vocabulary.
bool holds_tokenizer(const std::vector<std::string>& files);

}  // namespace tessera::quant
