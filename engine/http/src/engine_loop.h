#pragma once

#include <memory>
#include <thread>

#include "engine.h"
#include "tessera/run/live_clock.h"
#include "tessera/run/local_executor.h"

namespace tessera::http {

/// An engine whose model is in this process: the loop of run::serve_traffic.
class EngineLoop final : public Engine {
 public:
  /// @param draft_model that guesses for it; null: none does
  EngineLoop(std::shared_ptr<const lm::LanguageModel> model, const serving::Replica& engine,
             std::function<void(News)> tell, bool records = false,
             std::shared_ptr<const lm::LanguageModel> draft_model = nullptr);

  void run(const std::function<void()>& on_ready = {}) override;
  serving::Served take_record() override;

 private:
  std::vector<serving::EngineCore*> cores() override { return {&live_.core()}; }
  bool wait();
  void take_moment();

  serving::Replica engine_;
  run::WallClock clock_;
  serving::Log log_;
  run::LocalExecutor executor_;
  std::jthread touching_;  ///< the caches, beside the first steps
  run::LiveEngine live_;
};

}  // namespace tessera::http
