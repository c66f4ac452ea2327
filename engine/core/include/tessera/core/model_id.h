#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/files.h"

namespace tessera {

/// What the name of a checkpoint tells, as people write it on the hub ("Qwen/Qwen2.5-7B-Instruct-
/// AWQ"), to ollama ("llama3.1:8b-instruct-q4_K_M") or to llama.cpp ("x-GGUF:Q4_K_M").
struct ModelId {
  std::string stem;    ///< owner, tuning and storage taken off, lower case, words joined by '-'
  std::string tuning;  ///< "instruct", "base", or "" where the name says neither
  std::optional<std::string> format;  ///< "awq", "gptq", "fp8", "gguf q4_k_m", "mlx", ...
  std::optional<double> bits;         ///< of a weight; absent where the name does not say
};

ModelId parse_model_id(std::string_view id);

/// What is beyond the descriptions here in a model_type that people are likely to try; "" for one
/// that is simply unknown.
std::string reason_not_understood(std::string_view model_type);

/// Whether a config.json of it is read.
bool is_known_model_type(std::string_view model_type);

/// What a name of a shipped shape means.
struct NamedModel {
  std::string file;      ///< in datasets/models
  bool is_name = false;  ///< the shape's own name, which names no checkpoint
  ModelId id;
  std::vector<std::string> several;  ///< shapes that it may mean, where that is not clear
  std::string why_not;               ///< of a model that is known and cannot be described
};

/// The shipped model that is called so: its own name, its Hugging Face id or one that its file
/// lists, one that differs from these in tuning, storage and spelling alone, or what a tuned one
/// says that it comes from ("Hermes-3-Llama-3.1-8B"). Its file is "" where there is none or more
/// than one. A local path never gets here.
NamedModel find_model(const std::string& name, const DataFolders& folders);

}  // namespace tessera
