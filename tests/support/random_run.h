#pragma once

// A run of fake stages by a seed: engines, stages, who attends for them, prompts.

#include <algorithm>
#include <utility>
#include <vector>

#include "fake_stage.h"
#include "tessera/core/rng.h"
#include "tessera/run/job.h"

namespace tessera::run {

inline constexpr std::int64_t kContext = 96;

struct Setup {
  std::vector<std::int64_t> stages;  ///< of each engine
  Answers answers;
  JobOptions options;
};

/// Alone, from the start, without caches. A stage has a layer, at first.
inline Answer undisturbed(const Prompt& prompt, std::int64_t layers,
                          const std::vector<std::int32_t>& stop) {
  Answer answer;
  std::vector<std::vector<float>> inputs(static_cast<std::size_t>(layers));
  std::vector<std::int32_t> tokens = prompt.tokens;
  std::size_t done = 0;
  const std::int64_t room = kContext - std::ssize(prompt.tokens);
  const std::int64_t most = std::min(prompt.max_tokens, room);
  for (std::int64_t draw = 0; draw < most; ++draw) {
    float state = 0;
    for (; done < tokens.size(); ++done) {
      state = static_cast<float>(tokens[done]);
      for (std::int64_t k = 0; k < layers; ++k) {
        inputs[static_cast<std::size_t>(k)].push_back(state);
        state = fake_output(inputs[static_cast<std::size_t>(k)], k);
      }
    }
    const std::int32_t token = fake_token(state, prompt.sampling.seed, draw);
    if (std::find(stop.begin(), stop.end(), token) != stop.end()) {
      answer.stop_reason = lm::StopReason::stop_token;
      return answer;
    }
    tokens.push_back(token);
    answer.tokens.push_back(token);
  }
  answer.stop_reason =
      room < prompt.max_tokens ? lm::StopReason::context : lm::StopReason::max_tokens;
  return answer;
}

inline LoadOrder attention_of(LoadOrder order) {
  order.attends = true;
  order.with_embedding = order.with_head = false;
  return order;
}

inline Setup random_setup(Rng& rng) {
  Setup setup;
  const std::int64_t engines = rng.integer(1, 2);
  const std::int64_t count = rng.integer(1, 14);
  for (std::int64_t i = 0; i < count; ++i) {
    Prompt prompt;
    const std::int64_t length = rng.integer(1, 40);
    for (std::int64_t t = 0; t < length; ++t) {
      prompt.tokens.push_back(static_cast<std::int32_t>(rng.integer(0, kFakeVocabulary - 1)));
    }
    prompt.max_tokens = rng.integer(1, 70);  // some end where the context does
    prompt.sampling.seed = static_cast<std::uint64_t>(rng.integer(0, 1000));
    setup.answers.prompts.push_back(std::move(prompt));
  }
  setup.answers.done.resize(setup.answers.prompts.size());
  setup.options.max_context_tokens = kContext;
  if (rng.integer(0, 1) == 1) setup.options.stop_tokens = {7, 23};
  for (std::int64_t e = 0; e < engines; ++e) {
    EngineSpec spec;
    const std::int64_t stages = rng.integer(1, 6);
    setup.stages.push_back(stages);
    for (std::int64_t k = 0; k < stages; ++k) {
      LoadOrder order;
      order.first_layer = k;
      order.last_layer = k + 1;
      order.with_embedding = k == 0;
      order.with_head = k + 1 == stages;
      order.tensor_ranks =
          static_cast<std::int32_t>(rng.integer(0, 2) == 0 ? rng.integer(2, 3) : 1);
      if (order.tensor_ranks == 1 && rng.integer(0, 2) == 0) {
        order.attention_elsewhere = 1;
        spec.attention[static_cast<std::size_t>(k)] = attention_of(order);
      }
      spec.stages.push_back(order);
    }
    spec.share = rng.integer(1, 6);
    spec.options.scheduler = "micro_batches";
    spec.options.max_num_seqs = spec.share;
    spec.options.block_size = rng.integer(1, 16);
    spec.options.enable_prefix_caching = false;
    spec.options.max_model_len = kContext;
    spec.options.prefill_micro_batch_size = rng.integer(1, 6);
    spec.options.decode_micro_batch_size = rng.integer(1, 6);
    spec.options.chunk_tokens = rng.integer(0, 1) * rng.integer(1, 20);
    spec.kv_blocks =
        spec.share * ((kContext + spec.options.block_size - 1) / spec.options.block_size);
    setup.options.engines.push_back(std::move(spec));
  }
  return setup;
}

}  // namespace tessera::run
