// Heads of a model that attend for a stage of another process.

#include <chrono>

#include "parts.h"
#include "tessera/core/cpu_cores.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lm/module.h"
#include "tessera/run/process_memory.h"

namespace tessera::run {
namespace {

class HeadsPart final : public StagePart {
 public:
  explicit HeadsPart(const LoadOrder& order) : first_layer_(order.first_layer) {
    const auto start = std::chrono::steady_clock::now();
    loaded_.before_bytes = process_memory().anonymous_bytes;
    settle(order, order.cores);
    heads_ = lm::module().load_heads(request_of(order), order.kv_blocks, order.block_size);
    heads_->touch();
    loaded_.load_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    loaded_.kv_cache_bytes = heads_->cache_bytes();
    loaded_.hidden_size = heads_->hidden_size();
  }

  void run(const StepOrder&, std::vector<float>&) override { refuse_layers(); }
  std::vector<std::int32_t> sample(const StepOrder&, const std::vector<float>&) override {
    refuse_layers();
  }

  std::vector<float> attend(const StepOrder& order, std::int64_t layer,
                            std::vector<float> rows) override {
    if (layer == first_layer_) begin(order);
    return heads_->attend(layer, std::move(rows));
  }

  std::vector<std::byte> read(std::span<const std::int32_t>, std::int64_t,
                              std::int64_t) const override {
    refuse_layers();
  }
  void write(std::span<const std::int32_t>, std::int64_t, std::int64_t,
             std::span<const std::byte>) override {
    refuse_layers();
  }

  void forget(const std::string&) override {}

  Loaded loaded() const override {
    Loaded now = loaded_;
    const ProcessMemory memory = process_memory();
    now.resident_bytes = memory.anonymous_bytes;
    now.peak_bytes = memory.peak_bytes;
    return now;
  }

 private:
  [[noreturn]] static void refuse_layers() {
    refuse(ErrorCode::internal, "attend", "who attends for another has no layers");
  }

  // What a token is only the first stage knows.
  void begin(const StepOrder& order) {
    std::size_t most = 0;
    for (const StepItem& item : order.items)
      most = std::max(most, static_cast<std::size_t>(item.tokens));
    const std::vector<std::int32_t> nobody(most, 0);
    std::vector<lm::SequenceStep> steps;
    for (const StepItem& item : order.items) {
      steps.push_back({.tokens = std::span(nobody).first(static_cast<std::size_t>(item.tokens)),
                       .context_tokens = item.context_tokens,
                       .block_table = item.block_table,
                       .num_logits = 0});
    }
    heads_->begin(steps);
  }

  const std::int64_t first_layer_;
  std::unique_ptr<lm::AttentionHeads> heads_;
  Loaded loaded_;
};

}  // namespace

void settle(const LoadOrder& order, const std::vector<std::int32_t>& cores) {
  if (!keep_to_cores(cores)) {
    refuse(ErrorCode::io, "pin", "the system does not let a worker keep to core {}; pin = false",
           cores.front());
  }
  if (!order.fingerprint.empty() && model_fingerprint(order.path) != order.fingerprint) {
    refuse("model", "{} is another model here than where the run was started",
           quote(order.path, 300));
  }
}

std::unique_ptr<StagePart> load_heads_part(const LoadOrder& order) {
  return std::make_unique<HeadsPart>(order);
}

}  // namespace tessera::run
