#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api_request.h"
#include "choice_text.h"
#include "engine.h"
#include "exchange.h"
#include "metrics.h"
#include "tessera/core/json.h"

namespace tessera::http {

/// A request whose prompts are tokens and whose fields are right.
struct Prepared {
  Endpoint endpoint = Endpoint::completions;
  ApiRequest request = {};
  std::vector<std::vector<std::int32_t>> prompts = {};
  std::vector<std::string> echoes = {};  ///< [prompts] their texts, where they are wanted
  bool answers = true;                   ///< false: only the prompts and how likely they are
  std::vector<std::string> stops = {};
  std::optional<std::int64_t> num_top = {};
  bool includes_usage = false;
  run::Prompt pattern = {};                   ///< all but tokens and seed of what the engine gets
  std::vector<std::int64_t> max_tokens = {};  ///< [prompts]
  std::uint64_t seed = 0;

  std::int64_t num_choices() const { return request.n * std::ssize(prompts); }
};

/// A request that the engine works on: its choices become one answer, whole or streamed.
class Answering {
 public:
  using Clock = std::chrono::steady_clock;

  Answering(Prepared prepared, std::string model_name, const lm::Tokens& tokens,
            std::shared_ptr<Exchange> exchange, Metrics& metrics, Clock::time_point came);

  /// What the engine is to do, choice after choice.
  std::vector<Order> orders(std::int64_t first_request) const;
  void begin();

  /// True where the choice has come to a text at which it stops: nothing more is wanted of it.
  bool brought(std::size_t choice, const News::Piece& piece);
  void ended(std::size_t choice, const News::End& end);
  bool is_over() const { return num_over_ == choices_.size(); }
  /// All of its choices have ended: the rest of the answer.
  void finish();
  /// It is given up; whoever still listens is told.
  void fail(int status, const std::string& message);
  /// Nobody listens any more.
  void leave() { has_left_ = true; }

 private:
  struct Choice {
    ChoiceText text;
    std::string whole = {};  ///< of an answer that is not streamed
    std::vector<ChoiceText::Entry> entries = {};
    std::int64_t num_generated = 0, cached_tokens = 0;
    std::string finish_reason = {};
    Json stop_reason = nullptr;
    bool is_over = false;
    std::optional<Clock::time_point> first = {}, last = {};
  };

  bool is_chat() const { return prepared_.endpoint == Endpoint::chat; }
  std::size_t prompt_of(std::size_t choice) const {
    return choice / static_cast<std::size_t>(prepared_.request.n);
  }
  Json head(bool is_chunk) const;
  Json usage() const;
  Json log_probabilities(const std::vector<ChoiceText::Entry>& entries) const;
  void show(std::size_t choice, ChoiceText::News news);
  void show_prompt(std::size_t choice, const std::vector<lm::LogProbabilities>& of_prompt);
  ChoiceText::News take(std::size_t choice);
  void send(const Json& chunk);
  void send_chunk(std::size_t choice, const ChoiceText::News& news);
  Json whole_choice(std::size_t choice) const;
  void count(const Choice& choice, std::size_t prompt, const News::End& end);

  Prepared prepared_;
  const lm::Tokens& tokens_;
  std::string model_name_, id_;
  std::int64_t created_;
  std::shared_ptr<Exchange> exchange_;
  Metrics& metrics_;
  Clock::time_point came_;
  std::vector<Choice> choices_;
  std::size_t num_over_ = 0;
  bool has_left_ = false;
};

}  // namespace tessera::http
