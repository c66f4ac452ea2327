#include "tessera/lm/generate.h"

#include <algorithm>
#include <chrono>

#include "tessera/core/error.h"
#include "tessera/lm/text_stream.h"

namespace tessera::lm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How long the text may be: every token but the last one enters the cache.
std::int64_t room_of(const LanguageModel& model, const std::vector<std::int32_t>& prompt) {
  const std::int64_t longest = model.shape().max_context_tokens;
  const std::int64_t left = longest - static_cast<std::int64_t>(prompt.size());
  if (left < 1) {
    refuse(ErrorCode::out_of_range, "prompt",
           "{} tokens fill the context of {}, {} tokens, and nothing can follow; shorten it",
           prompt.size(), model.shape().name, longest);
  }
  return left;
}

class Generator {
 public:
  Generator(const LanguageModel& model, const std::vector<std::int32_t>& prompt,
            const GenerateRequest& request)
      : model_(model),
        prompt_(prompt),
        request_(request),
        room_(room_of(model, prompt)),
        most_(std::min(request.max_tokens, room_)),
        sequence_(model, static_cast<std::int64_t>(prompt.size()) + most_ - 1),
        sampler_(request.sampling, model.shape().vocab_size),
        stream_(model.tokens(), prompt),
        logits_(static_cast<std::size_t>(model.shape().vocab_size)) {
    for (const std::int32_t token : prompt) sampler_.see(token);
    if (!request.ignore_stop_tokens) stop_ = model.tokens().stop_token_ids();
  }

  Generation run() {
    result_.prompt_tokens = static_cast<std::int64_t>(prompt_.size());
    if (read_prompt()) write_text();
    if (const std::string rest = stream_.finish(); !rest.empty()) show(rest, std::nullopt);
    return std::move(result_);
  }

 private:
  bool interrupted() {
    if (!request_.interrupted || !request_.interrupted()) return false;
    result_.stop_reason = StopReason::interrupted;
    return true;
  }

  bool show(const std::string& piece, std::optional<std::int32_t> id) {
    result_.text += piece;
    return !request_.on_token || request_.on_token(piece, id);
  }

  bool read_prompt() {
    for (std::size_t done = 0; done < prompt_.size();) {
      if (interrupted()) return false;
      const std::size_t count = std::min<std::size_t>(prompt_.size() - done, kChunkTokens);
      const bool last = done + count == prompt_.size();
      sequence_.add(std::span(prompt_).subspan(done, count),
                    last ? std::span<float>(logits_) : std::span<float>());
      done += count;
    }
    result_.prompt_s = seconds_since(start_);
    return true;
  }

  // Chooses from the logits of the step before; false where the text ends with that.
  bool next(std::int64_t step) {
    const std::int32_t token = sampler_.choose(logits_, step);
    if (!result_.ttft_s) result_.ttft_s = seconds_since(start_);
    if (std::find(stop_.begin(), stop_.end(), token) != stop_.end()) {
      result_.stop_reason = StopReason::stop_token;
      return false;
    }
    sampler_.add(token);
    result_.tokens.push_back(token);
    if (show(stream_.add(token), token)) return true;
    result_.stop_reason = StopReason::on_token;
    return false;
  }

  void write_text() {
    std::int64_t steps = 0;
    result_.stop_reason =
        most_ < request_.max_tokens ? StopReason::context : StopReason::max_tokens;
    while (next(steps) && ++steps < most_) {
      if (interrupted()) break;
      sequence_.add({&result_.tokens.back(), 1}, logits_);
    }
    // The tokens after the first, the one that ended the text among them.
    const bool ended = result_.stop_reason == StopReason::stop_token;
    const auto num_tokens = static_cast<std::int64_t>(result_.tokens.size()) + (ended ? 1 : 0);
    if (num_tokens < 2) return;
    result_.tpot_s =
        (seconds_since(start_) - *result_.ttft_s) / static_cast<double>(num_tokens - 1);
  }

  const LanguageModel& model_;
  const std::vector<std::int32_t>& prompt_;
  const GenerateRequest& request_;
  std::int64_t room_, most_;
  Sequence sequence_;
  Sampler sampler_;
  TextStream stream_;
  std::vector<float> logits_;
  std::vector<std::int32_t> stop_;
  Generation result_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Generation generate(const LanguageModel& model, const std::vector<std::int32_t>& prompt,
                    const GenerateRequest& request) {
  check_tokens(model, prompt, "prompt");
  return Generator(model, prompt, request).run();
}

}  // namespace tessera::lm
