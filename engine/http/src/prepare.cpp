#include "prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "refusal.h"
#include "tessera/core/text.h"

namespace tessera::http {
namespace {

void check_model(const Premises& premises, const std::string& asked) {
  if (asked.empty() || asked == premises.name) return;
  throw Refusal(
      404,
      fmt::format("there is no model {}; this server has {}", quote(asked), quote(premises.name)),
      "model", "model_not_found");
}

void check_ids(const Premises& premises, const std::vector<std::int32_t>& ids,
               const std::string& param) {
  const std::int64_t vocabulary = premises.model->shape().vocab_size;
  const auto beyond = [&](std::int64_t id) { return id < 0 || id >= vocabulary; };
  if (const auto found = std::ranges::find_if(ids, beyond); found != ids.end()) {
    throw Refusal(400,
                  fmt::format("{}: token {} is beyond the vocabulary, 0 to {}", param, *found,
                              vocabulary - 1),
                  param);
  }
}

// What of the context is left for the answer: all of it, or what is asked for.
std::int64_t answer_tokens(const Premises& premises, std::int64_t prompt,
                           std::optional<std::int64_t> asked, const std::string& param) {
  const std::int64_t context = std::min(premises.max_model_len, premises.max_kv_tokens);
  if (prompt >= context) {
    throw Refusal(400,
                  fmt::format("the prompt has {} tokens, the context {}: nothing can follow",
                              prompt, context),
                  param, "context_length_exceeded");
  }
  const std::int64_t most = asked.value_or(context - prompt);
  if (prompt + most <= context) return most;
  throw Refusal(400,
                fmt::format("the prompt has {} tokens and max_tokens is {}, together {}; the "
                            "context has {}",
                            prompt, most, prompt + most, context),
                param, "context_length_exceeded");
}

std::vector<std::int32_t> encode(const Premises& premises, const std::string& text, bool special,
                                 const std::string& param) {
  try {
    return premises.model->tokens().encode(text, special);
  } catch (const Error& error) {
    throw Refusal(400, param + ": " + error.message(), param);
  }
}

std::string render(const Premises& premises, const ApiRequest& request) {
  if (!premises.chat_template) throw Refusal(400, premises.why_no_chat, "messages");
  if (request.messages.is_null()) throw Refusal(400, "messages: it is missing", "messages");
  return premises.chat_template->render(
      {.messages = chat::checked_messages(request.messages),
       .add_generation_prompt = request.add_generation_prompt && !request.continue_final_message,
       .continue_final_message = request.continue_final_message,
       .special = premises.special,
       .variables = request.chat_template_kwargs});
}

void check_for_stages(const run::Prompt& pattern) {
  const lm::Adjustments& a = pattern.adjustments;
  const char* param = pattern.num_top            ? "logprobs"
                      : !a.bias.empty()          ? "logit_bias"
                      : a.min_tokens > 0         ? "min_tokens"
                      : a.frequency_penalty != 0 ? "frequency_penalty"
                      : a.presence_penalty != 0  ? "presence_penalty"
                                                 : nullptr;
  if (param == nullptr) return;
  throw Refusal(400,
                fmt::format("{}: this server's model is in stages, whose last one draws by "
                            "temperature, top_k, top_p and repetition_penalty alone",
                            param),
                param);
}

void set_sampling(const Premises& premises, const ApiRequest& request, Prepared& prepared) {
  run::Prompt& pattern = prepared.pattern;
  pattern.sampling = {.temperature = request.temperature,
                      .top_k = std::max<std::int64_t>(request.top_k, 0),
                      .top_p = request.top_p,
                      .repetition_penalty = request.repetition_penalty};
  pattern.ignore_stop_tokens = request.ignore_eos;
  pattern.num_top = prepared.num_top;
  pattern.scores_prompt = request.echo && prepared.num_top;
  for (const std::int64_t id : request.stop_token_ids)
    pattern.stop_tokens.push_back(static_cast<std::int32_t>(id));
  check_ids(premises, pattern.stop_tokens, "stop_token_ids");
  lm::Adjustments& adjustments = pattern.adjustments;
  adjustments.bias = bias_of(request);
  for (const auto& [id, value] : adjustments.bias) check_ids(premises, {id}, "logit_bias");
  adjustments.min_tokens = request.min_tokens;
  if (request.min_tokens > 0) {
    adjustments.stop_tokens = pattern.stop_tokens;
    if (!request.ignore_eos) {
      for (const std::int32_t id : premises.model->tokens().stop_token_ids())
        adjustments.stop_tokens.push_back(id);
    }
  }
  adjustments.frequency_penalty = request.frequency_penalty;
  adjustments.presence_penalty = request.presence_penalty;
  if (premises.in_stages) check_for_stages(pattern);
  prepared.seed = request.seed ? static_cast<std::uint64_t>(*request.seed) : std::random_device{}();
}

void set_prompts(const Premises& premises, Prepared& prepared) {
  const ApiRequest& request = prepared.request;
  const bool is_chat = prepared.endpoint == Endpoint::chat;
  const std::string param = is_chat ? "messages" : "prompt";
  if (is_chat) {
    prepared.prompts.push_back(encode(premises, render(premises, request), false, param));
  } else {
    for (const PromptForm& form : prompts_of(request)) {
      const auto* text = std::get_if<std::string>(&form);
      prepared.prompts.push_back(text != nullptr ? encode(premises, *text, true, param)
                                                 : std::get<std::vector<std::int32_t>>(form));
      if (!request.echo) continue;
      prepared.echoes.push_back(
          text != nullptr ? *text : premises.model->tokens().decode(prepared.prompts.back(), true));
    }
  }
  std::optional<std::int64_t> asked = request.max_tokens;
  if (is_chat && request.max_completion_tokens) asked = request.max_completion_tokens;
  if (!is_chat && !asked) asked = 16;
  if (asked == 0) {
    if (!request.echo)
      throw Refusal(400, "max_tokens: 0 is for echo, which shows the prompt", "max_tokens");
    prepared.answers = false;
    asked = 1;  // computed with the prompt, and not told
  }
  for (const auto& prompt : prepared.prompts) {
    if (prompt.empty()) throw Refusal(400, param + ": it is empty", param);
    check_ids(premises, prompt, param);
    prepared.max_tokens.push_back(answer_tokens(premises, std::ssize(prompt), asked, param));
  }
}

// "request: field: ..." of a small body.
template <class Read>
std::string read_small(const std::string& body, const Read& read) {
  const Json json = read_body(body);
  try {
    JsonFields fields(json, "request");
    return read(fields);
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    const auto own = [](const std::string& text) {
      return text.starts_with("request: ") ? text.substr(9) : text;
    };
    throw Refusal(400, own(error.message()), own(error.where()));
  }
}

}  // namespace

Prepared prepare(const Premises& premises, Endpoint endpoint, const std::string& body) {
  Prepared prepared{.endpoint = endpoint, .request = read_api_request(body, endpoint)};
  const ApiRequest& request = prepared.request;
  check_model(premises, request.model);
  prepared.stops = stops_of(request);
  prepared.num_top = num_top_of(request, endpoint);
  prepared.includes_usage = includes_usage(request);
  set_sampling(premises, request, prepared);
  set_prompts(premises, prepared);
  return prepared;
}

std::string tokenize(const Premises& premises, const std::string& body) {
  return read_small(body, [&](JsonFields& fields) {
    check_model(premises, fields.text("model", ""));
    std::vector<std::int32_t> ids;
    const bool with_texts = fields.boolean("return_token_strs", false);
    if (fields.has("messages")) {
      ApiRequest request;
      request.messages = fields.at("messages");
      request.add_generation_prompt = fields.boolean("add_generation_prompt", true);
      const bool special = fields.boolean("add_special_tokens", false);
      fields.finish();
      ids = encode(premises, render(premises, request), special, "messages");
    } else {
      const std::string prompt = fields.text("prompt");
      const bool special = fields.boolean("add_special_tokens", true);
      fields.finish();
      ids = encode(premises, prompt, special, "prompt");
    }
    Json answer = Json::object();
    answer["count"] = ids.size();
    answer["max_model_len"] = premises.max_model_len;
    answer["tokens"] = ids;
    answer["token_strs"] = nullptr;
    if (with_texts) {
      answer["token_strs"] = Json::array();
      for (const std::int32_t id : ids)
        answer["token_strs"].push_back(premises.model->tokens().token(id));
    }
    return shown_json(answer);
  });
}

std::string detokenize(const Premises& premises, const std::string& body) {
  return read_small(body, [&](JsonFields& fields) {
    check_model(premises, fields.text("model", ""));
    const std::vector<std::int32_t> ids =
        json_integers(fields.at("tokens"), fields.path_of("tokens"), 0, 1 << 30);
    fields.finish();
    check_ids(premises, ids, "tokens");
    Json answer = Json::object();
    answer["prompt"] = premises.model->tokens().decode(ids);
    return shown_json(answer);
  });
}

}  // namespace tessera::http
