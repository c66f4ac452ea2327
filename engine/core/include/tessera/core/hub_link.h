#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// A repository of the Hugging Face hub, or a file in it.
struct HubLink {
  std::string id;                 ///< "Qwen/Qwen3-8B"
  std::string revision = "main";  ///< a branch, a tag or a commit
  std::string file = {};          ///< in the repository; "": all of it
};

/// "https://huggingface.co/Qwen/Qwen3-8B-GGUF/blob/main/Qwen3-8B-Q4_K_M.gguf", as a browser shows
/// it; also with /tree/ or /resolve/, without the scheme, and of https://hf.co. Empty for what is
/// no such address.
/// @throws Error{invalid_argument} for an address of the hub that names no model
std::optional<HubLink> hub_link(std::string_view text);

/// Where the hub's own cache is: $HF_HUB_CACHE, $HF_HOME/hub, or ~/.cache/huggingface/hub.
std::string hub_cache();

/// The folder or the file in it; "" where it is not there.
std::string in_hub_cache(const HubLink& link);

}  // namespace tessera
