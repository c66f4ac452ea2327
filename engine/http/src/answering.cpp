#include "answering.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "refusal.h"

namespace tessera::http {
namespace {

double seconds_between(Answering::Clock::time_point a, Answering::Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

std::string new_id(const char* kind) {
  static std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}-{:016x}{:016x}", kind, random(), random());
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json chat_token(const std::string& text, double log_probability) {
  Json token = Json::object();
  token["token"] = text;
  token["logprob"] = log_probability;
  token["bytes"] = bytes_of(text);
  return token;
}

Json of_chat(const std::vector<ChoiceText::Entry>& entries) {
  Json content = Json::array();
  for (const ChoiceText::Entry& entry : entries) {
    Json token = chat_token(entry.text, entry.log_probability.value());
    Json top = Json::array();
    for (const auto& [text, value] : entry.top) top.push_back(chat_token(text, value));
    token["top_logprobs"] = std::move(top);
    content.push_back(std::move(token));
  }
  Json all = Json::object();
  all["content"] = std::move(content);
  return all;
}

Json of_completion(const std::vector<ChoiceText::Entry>& entries) {
  Json all = Json::object();
  Json offsets = Json::array(), values = Json::array(), texts = Json::array(), top = Json::array();
  for (const ChoiceText::Entry& entry : entries) {
    offsets.push_back(entry.offset);
    texts.push_back(entry.text);
    if (!entry.log_probability) {  // the first of a prompt
      values.push_back(nullptr);
      top.push_back(nullptr);
      continue;
    }
    values.push_back(*entry.log_probability);
    Json likely = Json::object();
    for (const auto& [text, value] : entry.top) {
      if (!likely.contains(text)) likely[text] = value;
    }
    if (!likely.contains(entry.text)) likely[entry.text] = *entry.log_probability;
    top.push_back(std::move(likely));
  }
  all["text_offset"] = std::move(offsets);
  all["token_logprobs"] = std::move(values);
  all["tokens"] = std::move(texts);
  all["top_logprobs"] = std::move(top);
  return all;
}

double in_seconds(serving::Ticks from, serving::Ticks to) {
  return from == serving::kNever || to == serving::kNever ? -1 : serving::to_seconds(to - from);
}

}  // namespace

Answering::Answering(Prepared prepared, std::string model_name, const lm::Tokens& tokens,
                     std::shared_ptr<Exchange> exchange, Metrics& metrics, Clock::time_point came)
    : prepared_(std::move(prepared)),
      tokens_(tokens),
      model_name_(std::move(model_name)),
      id_(new_id(is_chat() ? "chatcmpl" : "cmpl")),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      exchange_(std::move(exchange)),
      metrics_(metrics),
      came_(came) {
  for (std::int64_t i = 0; i < prepared_.num_choices(); ++i) {
    const auto& prompt = prepared_.prompts[prompt_of(choices_.size())];
    choices_.push_back(
        {.text = ChoiceText(tokens, prompt, prepared_.stops, prepared_.num_top.has_value())});
  }
}

std::vector<Order> Answering::orders(std::int64_t first_request) const {
  std::vector<Order> all;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    run::Prompt prompt = prepared_.pattern;
    prompt.tokens = prepared_.prompts[prompt_of(i)];
    prompt.max_tokens = prepared_.max_tokens[prompt_of(i)];
    prompt.sampling.seed = prepared_.seed + static_cast<std::uint64_t>(number);
    std::string salt = prepared_.request.cache_salt;
    // What is found in the cache is not computed, and says nothing of how likely it was.
    if (prompt.scores_prompt) salt += fmt::format("\n{}-{}", id_, i);
    all.push_back({first_request + number, std::move(prompt), std::move(salt)});
  }
  return all;
}

void Answering::begin() {
  if (prepared_.request.stream) exchange_->begin_events();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (prepared_.request.stream && is_chat()) {
      Json chunk = head(true), choice = Json::object();
      choice["index"] = i;
      choice["delta"] = {{"role", "assistant"}, {"content", ""}};
      choice["logprobs"] = nullptr;
      choice["finish_reason"] = nullptr;
      chunk["choices"] = Json::array({std::move(choice)});
      send(chunk);
    }
    // One that says how likely the prompt was waits for that.
    if (!prepared_.echoes.empty() && !prepared_.pattern.scores_prompt)
      show(i, {.text = prepared_.echoes[prompt_of(i)], .entries = {}});
  }
}

// The prompt, in the shape of an answer that it were: nothing came before its first token.
void Answering::show_prompt(std::size_t choice,
                            const std::vector<lm::LogProbabilities>& of_prompt) {
  const std::vector<std::int32_t>& prompt = prepared_.prompts[prompt_of(choice)];
  ChoiceText text(tokens_, {}, {}, true);
  const lm::LogProbabilities none;
  for (std::size_t i = 0; i < prompt.size(); ++i)
    text.add(prompt[i], i == 0 ? &none : &of_prompt[i - 1]);
  text.end();
  ChoiceText::News news = text.take();
  news.text = prepared_.echoes[prompt_of(choice)];
  news.entries.front().log_probability.reset();
  show(choice, std::move(news));
}

// What is new of an answer, behind its prompt where that is shown.
ChoiceText::News Answering::take(std::size_t choice) {
  ChoiceText::News news = choices_[choice].text.take();
  if (prepared_.echoes.empty()) return news;
  const std::int64_t before = num_characters(prepared_.echoes[prompt_of(choice)]);
  for (ChoiceText::Entry& entry : news.entries) entry.offset += before;
  return news;
}

bool Answering::brought(std::size_t choice, const News::Piece& piece) {
  Choice& c = choices_[choice];
  if (c.is_over || c.text.stopped_by()) return false;
  if (piece.of_prompt && !has_left_) show_prompt(choice, *piece.of_prompt);
  if (piece.tokens.empty() || !prepared_.answers) return false;
  for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
    c.text.add(piece.tokens[i],
               i < piece.log_probabilities.size() ? &piece.log_probabilities[i] : nullptr);
  }
  const auto now = Clock::now();
  auto more = std::ssize(piece.tokens);
  if (!c.first) {
    c.first = c.last = now;
    metrics_.first_token(seconds_between(came_, now));
    --more;
  }
  if (more > 0) metrics_.next_tokens(seconds_between(*c.last, now), more);
  c.last = now;
  if (has_left_) return false;
  if (ChoiceText::News news = take(choice); !news.empty()) show(choice, std::move(news));
  return c.text.stopped_by().has_value();
}

void Answering::ended(std::size_t choice, const News::End& end) {
  Choice& c = choices_[choice];
  if (std::exchange(c.is_over, true)) return;
  ++num_over_;
  c.text.end();
  c.num_generated = c.text.num_tokens();
  c.cached_tokens = end.record.cached_tokens;
  if (c.text.stopped_by()) {
    c.finish_reason = "stop";
    c.stop_reason = *c.text.stopped_by();
  } else if (!prepared_.answers && end.how == run::Ending::finished) {
    c.finish_reason = "length";
  } else if (end.is_stopped && end.how == run::Ending::finished) {
    ++c.num_generated;  // the end token
    c.finish_reason = "stop";
    const auto& own = prepared_.pattern.stop_tokens;
    if (std::ranges::find(own, end.stop_token) != own.end()) c.stop_reason = end.stop_token;
  } else {
    c.finish_reason = end.how == run::Ending::finished ? "length" : "abort";
  }
  count(c, prompt_of(choice), end);
  if (has_left_) return;
  ChoiceText::News news = take(choice);
  if (prepared_.request.stream) return send_chunk(choice, news);
  show(choice, std::move(news));
}

void Answering::count(const Choice& choice, std::size_t prompt, const News::End& end) {
  const bool gave_up = has_left_ || choice.finish_reason == "abort";
  const Finished how = gave_up                            ? Finished::abort
                       : choice.finish_reason == "length" ? Finished::length
                                                          : Finished::stop;
  const serving::RequestRecord& r = end.record;
  const Metrics::Times times{.queue_s = in_seconds(r.taken, r.first_scheduled),
                             .prefill_s = in_seconds(r.first_scheduled, r.first_token),
                             .decode_s = in_seconds(r.first_token, r.last_token),
                             .inference_s = in_seconds(r.first_scheduled, r.last_token)};
  const double per_token = choice.num_generated > 1 && times.decode_s >= 0
                               ? times.decode_s / static_cast<double>(choice.num_generated - 1)
                               : -1;
  metrics_.ended(how, times, seconds_between(came_, Clock::now()), per_token,
                 std::ssize(prepared_.prompts[prompt]), choice.num_generated, prepared_.request.n,
                 prepared_.max_tokens[prompt]);
}

// ------------------------------------------------------------------------------------ what is sent

Json Answering::head(bool is_chunk) const {
  Json json = Json::object();
  json["id"] = id_;
  json["object"] = !is_chat() ? "text_completion"
                   : is_chunk ? "chat.completion.chunk"
                              : "chat.completion";
  json["created"] = created_;
  json["model"] = model_name_;
  return json;
}

Json Answering::usage() const {
  std::int64_t prompt = 0, cached = 0, generated = 0;
  for (std::size_t i = 0; i < prepared_.prompts.size(); ++i) {
    prompt += std::ssize(prepared_.prompts[i]);
    cached += choices_[i * static_cast<std::size_t>(prepared_.request.n)].cached_tokens;
  }
  for (const Choice& choice : choices_) generated += choice.num_generated;
  Json json = Json::object();
  json["prompt_tokens"] = prompt;
  json["completion_tokens"] = generated;
  json["total_tokens"] = prompt + generated;
  json["prompt_tokens_details"] = {{"cached_tokens", cached}};
  return json;
}

Json Answering::log_probabilities(const std::vector<ChoiceText::Entry>& entries) const {
  if (!prepared_.num_top) return nullptr;
  return is_chat() ? of_chat(entries) : of_completion(entries);
}

void Answering::show(std::size_t choice, ChoiceText::News news) {
  if (news.empty()) return;
  if (prepared_.request.stream) return send_chunk(choice, news);
  Choice& c = choices_[choice];
  c.whole += news.text;
  std::ranges::move(news.entries, std::back_inserter(c.entries));
}

void Answering::send(const Json& chunk) {
  exchange_->send(fmt::format("data: {}\n\n", shown_json(chunk)));
}

void Answering::send_chunk(std::size_t choice, const ChoiceText::News& news) {
  const Choice& c = choices_[choice];
  Json chunk = head(true), json = Json::object();
  json["index"] = choice;
  if (is_chat()) {
    json["delta"] = Json::object();
    if (!news.text.empty()) json["delta"]["content"] = news.text;
  } else {
    json["text"] = news.text;
  }
  json["logprobs"] = news.entries.empty() ? Json(nullptr) : log_probabilities(news.entries);
  json["finish_reason"] = c.is_over ? Json(c.finish_reason) : Json(nullptr);
  if (c.is_over) json["stop_reason"] = c.stop_reason;
  chunk["choices"] = Json::array({std::move(json)});
  send(chunk);
}

Json Answering::whole_choice(std::size_t choice) const {
  const Choice& c = choices_[choice];
  Json json = Json::object();
  json["index"] = choice;
  if (is_chat()) {
    json["message"] = {{"role", "assistant"}, {"content", c.whole}};
  } else {
    json["text"] = c.whole;
  }
  json["logprobs"] = log_probabilities(c.entries);
  json["finish_reason"] = c.finish_reason;
  json["stop_reason"] = c.stop_reason;
  return json;
}

void Answering::finish() {
  if (has_left_) return;
  exchange_->on_left = nullptr;
  if (!prepared_.request.stream) {
    Json answer = head(false);
    answer["choices"] = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) answer["choices"].push_back(whole_choice(i));
    answer["usage"] = usage();
    return exchange_->respond(200, shown_json(answer));
  }
  if (prepared_.includes_usage) {
    Json chunk = head(true);
    chunk["choices"] = Json::array();
    chunk["usage"] = usage();
    send(chunk);
  }
  exchange_->send("data: [DONE]\n\n");
  exchange_->finish();
}

void Answering::fail(int status, const std::string& message) {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& c = choices_[i];
    if (std::exchange(c.is_over, true)) continue;
    ++num_over_;
    const std::size_t prompt = prompt_of(i);
    metrics_.ended(has_left_ ? Finished::abort : Finished::error, {},
                   seconds_between(came_, Clock::now()), -1, std::ssize(prepared_.prompts[prompt]),
                   c.text.num_tokens(), prepared_.request.n, prepared_.max_tokens[prompt]);
  }
  if (std::exchange(has_left_, true)) return;
  exchange_->on_left = nullptr;
  const std::string body = error_body(status, message);
  if (!prepared_.request.stream) return exchange_->respond(status, body);
  exchange_->send("data: " + body + "\n\n");
  exchange_->finish();
}

}  // namespace tessera::http
