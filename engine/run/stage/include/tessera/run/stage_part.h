#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/lm/heads_elsewhere.h"
#include "tessera/run/step_messages.h"
#include "tessera/run/worker_records.h"

namespace tessera::run {

/// A step that cannot be finished, as another rank of its stage is gone: what the master does about
/// that is still to come.
class StepLost : public Error {
 public:
  using Error::Error;
};

/// What a worker computes with: some layers of a model and their cache.
class StagePart {
 public:
  virtual ~StagePart() = default;
  /// The layers of a step. `hidden` [tokens of the step][hidden_size] is what the stage before
  /// made, and becomes what this one makes; the first stage makes it of token ids.
  /// @throws Error{out_of_range} for tokens, blocks or rows that cannot be; StepLost
  virtual void run(const StepOrder& order, std::vector<float>& hidden) = 0;
  /// The next token of each item that draws one, else -1; of the last stage.
  virtual std::vector<std::int32_t> sample(const StepOrder& order,
                                           const std::vector<float>& hidden) = 0;
  /// Of a part that only attends, the layers of a step in their order: rows as lm::AttentionHeads
  /// has them. @throws as run
  virtual std::vector<float> attend(const StepOrder& order, std::int64_t layer,
                                    std::vector<float> rows) = 0;
  /// What blocks of its cache hold of layers [first, last), as lm::KvCache has it.
  /// @throws Error{out_of_range} for blocks or layers that it does not have
  virtual std::vector<std::byte> read(std::span<const std::int32_t> blocks, std::int64_t first,
                                      std::int64_t last) const = 0;
  /// @throws as read, and for another size
  virtual void write(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
                     std::span<const std::byte> data) = 0;
  /// Nobody is being answered any more. @param shared of the ranks of its stage, anew
  virtual void forget(const std::string& shared) = 0;
  virtual Loaded loaded() const = 0;
};

/// Makes what an order asks for. `before` is what was there until now, or null: what of it is
/// wanted on need not be read again, and the rest is given up first. `elsewhere` answers for the
/// heads that the order leaves to another rank; null where it leaves none.
using StageLoader = std::function<std::unique_ptr<StagePart>(
    const LoadOrder& order, std::unique_ptr<StagePart> before,
    std::shared_ptr<lm::HeadsElsewhere> elsewhere)>;

/// Loads a part of a model with `lm`: maps its layers, quantises them one by one. A rank that
/// attends has heads of them alone.
/// @throws as lm::Module::load; Error{invalid_argument} for another model than the master's
std::unique_ptr<StagePart> load_model_part(const LoadOrder& order,
                                           std::unique_ptr<StagePart> before,
                                           std::shared_ptr<lm::HeadsElsewhere> elsewhere);

}  // namespace tessera::run
