#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/core/record_json.h"

namespace tessera::http {

/// The fields of a request for a completion or a chat, under OpenAI's and vLLM's names. Those that
/// have several forms are read by whoever needs them.
struct ApiRequest {
  std::string model = {};
  Json prompt = nullptr, messages = nullptr;
  std::optional<std::int64_t> max_tokens = {}, max_completion_tokens = {};
  double temperature = 1, top_p = 1;
  std::int64_t top_k = 0, min_tokens = 0, n = 1;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::optional<std::int64_t> seed = {};
  std::vector<std::int64_t> stop_token_ids = {};
  bool ignore_eos = false, echo = false, stream = false;
  bool add_generation_prompt = true, continue_final_message = false;
  std::optional<std::int64_t> top_logprobs = {};
  std::string cache_salt = {};
  Json stop = nullptr, logprobs = nullptr, stream_options = nullptr, logit_bias = nullptr;
  Json response_format = nullptr, chat_template_kwargs = nullptr;
};

enum class Endpoint { completions, chat };

/// @throws Refusal naming the field: unknown, of another endpoint, not offered, of a wrong kind or
/// range
ApiRequest read_api_request(std::string_view body, Endpoint endpoint);

/// The object of a body. @throws Refusal
Json read_body(std::string_view body);
// What fields of several forms say.
std::vector<std::string> stops_of(const ApiRequest& request);
bool includes_usage(const ApiRequest& request);
std::vector<std::pair<std::int32_t, float>> bias_of(const ApiRequest& request);
/// How many likely tokens stand beside each; absent: log-probabilities are not wanted.
std::optional<std::int64_t> num_top_of(const ApiRequest& request, Endpoint endpoint);
using PromptForm = std::variant<std::string, std::vector<std::int32_t>>;
std::vector<PromptForm> prompts_of(const ApiRequest& request);

}  // namespace tessera::http
