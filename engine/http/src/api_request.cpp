#include "api_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "api_fields.h"
#include "refusal.h"
#include "tessera/core/text.h"

namespace tessera::http {
namespace {

constexpr int kMostDepth = 32;
constexpr std::size_t kMostStops = 16, kMostPrompts = 1024, kMostBias = 1024;
constexpr std::string_view kRoot = "request";  // what paths of the reader begin with

// Of one endpoint alone.
constexpr std::string_view kOfCompletions[] = {"prompt", "echo"};
constexpr std::string_view kOfChat[] = {
    "messages",        "max_completion_tokens",  "top_logprobs",        "add_generation_prompt",
    "response_format", "continue_final_message", "chat_template_kwargs"};
// Known elsewhere and not offered: said by name, rather than passed over.
constexpr std::string_view kNotOffered[] = {"tools",
                                            "tool_choice",
                                            "functions",
                                            "function_call",
                                            "suffix",
                                            "best_of",
                                            "modalities",
                                            "audio",
                                            "use_beam_search",
                                            "guided_json",
                                            "guided_regex",
                                            "guided_choice",
                                            "guided_grammar",
                                            "structured_outputs",
                                            "prompt_logprobs",
                                            "parallel_tool_calls",
                                            "reasoning_effort",
                                            "prediction",
                                            "web_search_options",
                                            "min_p",
                                            "truncate_prompt_tokens"};
// What says nothing to the model.
constexpr std::string_view kPassed[] = {
    "user",       "store",    "metadata",          "service_tier",
    "request_id", "priority", "safety_identifier", "prompt_cache_key",
    "verbosity"};

bool has(auto&& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

std::vector<std::string> known_fields(Endpoint endpoint) {
  std::vector<std::string> names;
  for_each_field<ApiRequest>([&](const auto& item) {
    const std::string_view name = item.spec.name;
    if (endpoint == Endpoint::chat ? has(kOfCompletions, name) : has(kOfChat, name)) return;
    names.emplace_back(name);
  });
  return names;
}

// Fields that nobody reads are taken away, others that are not known refused.
void check_names(Json& json, Endpoint endpoint) {
  const std::vector<std::string> known = known_fields(endpoint);
  Json kept = Json::object();
  for (auto& [key, value] : json.items()) {
    if (has(kPassed, key) || value.is_null()) continue;
    if (has(kNotOffered, key))
      throw Refusal(400, fmt::format("{} is not offered by this server", quote(key)), key);
    if (!has(known, key)) {
      throw Refusal(400, fmt::format("unknown field {}{}", quote(key), did_you_mean(key, known)),
                    key.substr(0, 100));
    }
    kept[key] = std::move(value);
  }
  json = std::move(kept);
}

[[noreturn]] void refuse_field(const std::string& param, const std::string& what) {
  throw Refusal(400, param + ": " + what, param);
}

void check_rules(const ApiRequest& request) {
  if (request.top_p <= 0) refuse_field("top_p", "0 is outside (0, 1]");
  const Json& format = request.response_format;
  if (!format.is_null()) {
    const bool is_text = format.is_object() && format.contains("type") && format["type"] == "text";
    if (!is_text) refuse_field("response_format", "only {\"type\": \"text\"} is offered");
  }
}

}  // namespace

Json read_body(std::string_view body) {
  if (!is_utf8(body)) throw Refusal(400, "the body is not UTF-8");
  try {
    Json json = parse_json(body, std::string(kRoot), {.max_depth = kMostDepth});
    if (!json.is_object()) throw Refusal(400, "the body is no JSON object");
    return json;
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    throw Refusal(400, "the body: " + error.message().substr(
                                          std::min(error.message().size(), kRoot.size() + 2)));
  }
}

// "request: temperature: 3 is outside [0, 2]"
[[noreturn]] static void refuse_as_client_sees(const Error& error) {
  const std::size_t root = kRoot.size() + 2;
  const auto without_root = [&](const std::string& text) {
    return text.starts_with(kRoot) ? text.substr(std::min(text.size(), root)) : text;
  };
  throw Refusal(400, without_root(error.message()), without_root(error.where()));
}

ApiRequest read_api_request(std::string_view body, Endpoint endpoint) {
  Json json = read_body(body);
  check_names(json, endpoint);
  ApiRequest request;
  try {
    request = from_json<ApiRequest>(json, std::string(kRoot));
  } catch (const Error& error) {
    refuse_as_client_sees(error);
  }
  check_rules(request);
  return request;
}

std::vector<std::string> stops_of(const ApiRequest& request) {
  const Json& stop = request.stop;
  if (stop.is_null()) return {};
  const Json list = stop.is_array() ? stop : Json::array({stop});
  if (list.size() > kMostStops)
    refuse_field("stop", fmt::format("{} texts, the limit is {}", list.size(), kMostStops));
  std::vector<std::string> stops;
  for (const Json& text : list) {
    if (!text.is_string()) refuse_field("stop", "a string or a list of strings belongs here");
    if (text.get_ref<const std::string&>().empty()) refuse_field("stop", "a text is empty");
    stops.push_back(text.get<std::string>());
  }
  return stops;
}

bool includes_usage(const ApiRequest& request) {
  const Json& options = request.stream_options;
  if (options.is_null()) return false;
  if (!request.stream) refuse_field("stream_options", "it is for stream = true");
  if (!options.is_object()) refuse_field("stream_options", "an object belongs here");
  bool usage = false;
  for (const auto& [key, value] : options.items()) {
    const bool is_known = key == "include_usage" || key == "include_obfuscation";
    if (!is_known)
      refuse_field("stream_options." + key.substr(0, 100), "unknown; include_usage is known");
    if (!value.is_boolean()) refuse_field("stream_options." + key, "true or false belongs here");
    if (key == "include_usage") usage = value.get<bool>();
  }
  return usage;
}

std::vector<std::pair<std::int32_t, float>> bias_of(const ApiRequest& request) {
  const Json& bias = request.logit_bias;
  if (bias.is_null()) return {};
  if (!bias.is_object())
    refuse_field("logit_bias", "an object of token ids and numbers belongs here");
  if (bias.size() > kMostBias)
    refuse_field("logit_bias", fmt::format("{} tokens, the limit is {}", bias.size(), kMostBias));
  std::vector<std::pair<std::int32_t, float>> all;
  for (const auto& [key, value] : bias.items()) {
    const bool digits =
        !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) refuse_field("logit_bias", fmt::format("{} is no token id", quote(key)));
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (!(number >= -100 && number <= 100))
      refuse_field("logit_bias",
                   fmt::format("of token {}: a number in [-100, 100] belongs here", key));
    all.emplace_back(std::stoi(key), static_cast<float>(number));
  }
  return all;
}

std::optional<std::int64_t> num_top_of(const ApiRequest& request, Endpoint endpoint) {
  const Json& value = request.logprobs;
  if (endpoint == Endpoint::chat) {
    if (!value.is_null() && !value.is_boolean())
      refuse_field("logprobs", "true or false belongs here");
    const bool wanted = !value.is_null() && value.get<bool>();
    if (request.top_logprobs && !wanted) refuse_field("top_logprobs", "it is for logprobs = true");
    if (!wanted) return std::nullopt;
    return request.top_logprobs.value_or(0);
  }
  if (value.is_null()) return std::nullopt;
  try {
    return json_integer(value, "logprobs", 0, 20);
  } catch (const Error& error) {
    throw Refusal(400, error.message(), "logprobs");
  }
}

std::vector<PromptForm> prompts_of(const ApiRequest& request) {
  const Json& prompt = request.prompt;
  const std::string forms =
      "a string, a list of strings, token ids or a list of these belongs here";
  if (prompt.is_null()) refuse_field("prompt", "it is missing");
  if (prompt.is_string()) return {prompt.get<std::string>()};
  if (!prompt.is_array()) refuse_field("prompt", forms);
  if (prompt.empty()) refuse_field("prompt", "the list is empty");
  const auto ids_of = [&](const Json& list) {
    std::vector<std::int32_t> ids;
    for (const Json& id : list) {
      const bool fits = id.is_number_integer() && (id.is_number_unsigned() || id >= 0) &&
                        id.get<std::uint64_t>() < (1u << 30);
      if (!fits) refuse_field("prompt", fmt::format("item {} is no token id", ids.size()));
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  };
  if (prompt.front().is_number()) return {ids_of(prompt)};
  if (prompt.size() > kMostPrompts)
    refuse_field("prompt", fmt::format("{} prompts, the limit is {}", prompt.size(), kMostPrompts));
  std::vector<PromptForm> all;
  for (const Json& item : prompt) {
    if (item.is_string()) {
      all.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      all.emplace_back(ids_of(item));
    } else {
      refuse_field("prompt", forms);
    }
  }
  return all;
}

}  // namespace tessera::http
