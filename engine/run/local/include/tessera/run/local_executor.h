#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/lm/language_model.h"
#include "tessera/lm/sampling.h"
#include "tessera/run/live_clock.h"
#include "tessera/run/session.h"
#include "tessera/serving/stage_clocks.h"

namespace tessera::run {

class Drafter;

/// Tokens that were guessed for a request, and what each was drawn from.
struct Drafts {
  std::vector<std::int32_t> tokens = {};
  /// [tokens][vocab_size]; empty: nothing drew them, they are likely ones.
  std::vector<double> probabilities = {};
};

/// Runs the steps of one engine on a model in this process, one after the other on the thread that
/// calls it.
class LocalExecutor final : public SessionExecutor {
 public:
  struct Options {
    std::int64_t kv_blocks = 1, block_size = lm::kBlockTokens;
    std::unordered_set<std::int32_t> stop_tokens = {};
    /// Tokens that are guessed for a step at most, by the draft model, or where there is none from
    /// what a request's text has said before.
    std::int64_t num_drafts = 0;
    std::shared_ptr<const lm::LanguageModel> draft_model = nullptr;
  };
  /// @param model_times steps end when these say so, on a clock that waits for that; null: when
  /// they are computed
  LocalExecutor(std::shared_ptr<const lm::LanguageModel> model, Options options,
                const LiveClock& clock, serving::StageClocks* model_times = nullptr);
  ~LocalExecutor() override;

  /// Has the system hand out the memory of the caches, as lm::KvCache::touch does; on any thread.
  void touch(const std::stop_token& stop = {});

  void launch(const serving::Work& work) override;
  std::optional<serving::Done> finished() override;

  /// When the oldest step under way has to be run, or ends; kNever: none is under way.
  serving::Ticks due() const;
  /// Computes it, where steps end when they are computed.
  void run();
  serving::Ticks last_end() const { return last_end_; }  ///< of all steps

 private:
  /// An item's part of a step.
  struct Part {
    std::vector<std::int32_t> tokens = {};  ///< as far as they are known
    std::int64_t num_drafts = 0;            ///< of them
    std::int64_t first_row = 0, row = 0;    ///< of its logits; of those that draw
    std::int64_t num_scored = 0;            ///< rows that say how likely tokens of the prompt were
    bool draws = false;
  };
  struct UnderWay {
    serving::Work work;
    serving::StepTimes times = {};
    std::vector<Part> parts = {};  ///< [items]
  };
  struct Drawing {  ///< what a request's tokens are drawn with
    lm::Sampler sampler;
    Drafts drafts = {};
  };

  void compute(UnderWay& step);
  void move(const serving::Moves& moves);
  void lay_out(UnderWay& step);
  void fill_in(const serving::BatchItem& item, Part& part, const Session& session);
  void score_prompts(const UnderWay& step);
  void draw(const UnderWay& step);
  bool put_token(Session& session, std::int32_t token, std::int64_t row) const;
  bool is_drawn_by_rule(std::int64_t request, const Part& part);
  std::int32_t next_token(const Session& session, Drawing& drawing, std::int64_t row,
                          std::int64_t passed);
  serving::Generated verify(std::int64_t request, std::optional<std::int32_t> token,
                            const Part& part);
  void look_up_drafts(std::int64_t request, serving::Generated& g);
  void draft(const UnderWay& step);
  Drawing& drawing_of(std::int64_t request, const Session& session);
  void gone(std::int64_t request) override;
  std::span<const float> logits_of(std::int64_t row) const;

  std::shared_ptr<const lm::LanguageModel> model_;
  Options options_;
  const LiveClock& clock_;
  serving::StageClocks* model_times_;
  std::unique_ptr<lm::KvCache> cache_;
  std::unique_ptr<Drafter> drafter_;
  std::unordered_map<serving::Block, std::vector<std::byte>> host_;  ///< blocks swapped out
  std::unordered_map<std::int64_t, Drawing> drawings_;               ///< by request
  std::deque<UnderWay> under_way_;
  serving::Ticks last_end_ = 0;
  bool is_computed_ = false;  ///< the oldest

  // Of the step that is computed.
  std::vector<lm::SequenceStep> steps_;
  std::vector<float> logits_;
  std::vector<serving::Generated> generated_;
};

}  // namespace tessera::run
