#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tessera/run/session.h"
#include "tessera/run/step_messages.h"
#include "tessera/run/transport.h"
#include "tessera/serving/engine_core.h"

namespace tessera::run {

/// A step as its stages ran it, by the master's clock.
struct StageSpan {
  std::int64_t step = 0;
  std::size_t stage = 0;
  std::int32_t rank = 0;                         ///< the first of the stage's
  Nanoseconds start = 0, computed = 0, end = 0;  ///< as StageTimes has them
  serving::StepUnit unit;
  std::int64_t num_requests = 0, num_tokens = 0;
  std::int64_t sent_bytes = 0;  ///< hidden states or tokens, of all ranks of the stage
};

/// Times of devices and links that are emulated, by (decodes, micro-batch, index) of a StepUnit: of
/// the tokens' way back to the first stage, of it, of the link behind it, of the second stage, ...
/// Empty: devices and links are what they are.
using Emulated = std::map<std::tuple<bool, std::int64_t, std::int64_t>, std::vector<Nanoseconds>>;

/// Runs the steps of one engine on its stages: tells all of them of a step as soon as it is
/// decided, and takes what the last one sampled.
class StageExecutor final : public SessionExecutor {
 public:
  /// @param ranks by stage, the tensor-parallel ranks of each
  /// @param attention by stage, the rank that attends to some of its heads, where there is one
  StageExecutor(std::vector<std::vector<std::int32_t>> ranks,
                std::map<std::size_t, std::int32_t> attention,
                std::unordered_set<std::int32_t> stop_tokens, Transport& transport,
                Emulated emulated = {});

  void launch(const serving::Work& work) override;
  std::optional<serving::Done> finished() override;

  /// Of the last stage. @throws Error{invalid_argument} for what no step under way is answered by
  void on_tokens(const Message& message);
  /// Steps under way are lost; those of an older epoch are not listened to.
  void lose_steps(std::uint32_t epoch);
  /// Runs on other stages from now on, with no step under way.
  void move_to(std::vector<std::vector<std::int32_t>> ranks) { ranks_ = std::move(ranks); }

  /// It only reads prompts: a request that goes on after its token is held, for another engine.
  void read_only() { reads_only_ = true; }
  /// The moment at which steps are launched and taken.
  void set_moment(serving::Ticks moment) { moment_ = moment; }

  /// The step that was launched last, of those under way; -1: none is.
  std::int64_t newest_step() const { return under_way_.empty() ? -1 : under_way_.back().step; }
  std::size_t num_under_way() const { return under_way_.size(); }
  /// When the oldest step under way was launched; kNoTime: none is.
  Nanoseconds oldest_launch() const {
    return under_way_.empty() ? kNoTime : under_way_.front().launched;
  }
  /// Whether that one decodes.
  bool oldest_decodes() const { return !under_way_.empty() && under_way_.front().unit.decodes; }
  const std::vector<StageSpan>& spans() const { return spans_; }
  /// Whether it keeps them; it does unless told otherwise.
  void keep_spans(bool keeps) { keeps_spans_ = keeps; }
  /// Start of the run: steps are timed from it.
  void start_at(Nanoseconds start) { start_ = start; }
  serving::Ticks ticks(Nanoseconds at) const { return (at - start_) * 1000; }

 private:
  struct UnderWay {
    std::int64_t step = 0;
    std::vector<serving::BatchItem> items;
    serving::StepUnit unit;
    Nanoseconds launched = 0;  ///< as limits of time are counted
    serving::Ticks start = 0;
  };
  const std::vector<Nanoseconds>* emulated_times(const serving::StepUnit& unit) const;
  StepItem item_of(const serving::Work& work, std::size_t i, StepOrder& order);
  void gone(std::int64_t request) override;
  serving::Generated take_token(const serving::BatchItem& item, std::int32_t token);
  void note_times(const UnderWay& step, const std::vector<StageTimes>& times);

  std::vector<std::vector<std::int32_t>> ranks_;
  std::map<std::size_t, std::int32_t> attention_;
  Transport& transport_;
  Emulated emulated_;
  Nanoseconds start_ = 0;
  std::uint32_t epoch_ = 0;
  std::unordered_set<std::int64_t> sampled_;  ///< requests that the last stage draws for
  std::vector<std::int64_t> gone_;            ///< of these, since the last step
  std::deque<UnderWay> under_way_;
  std::deque<serving::Done> done_;
  std::vector<StageSpan> spans_;
  bool keeps_spans_ = true, reads_only_ = false;
  serving::Ticks moment_ = 0;
};

}  // namespace tessera::run
