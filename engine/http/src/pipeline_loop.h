#pragma once

#include <optional>

#include "engine.h"
#include "tessera/run/execute.h"

namespace tessera::http {

/// An engine whose model's layers are in other processes, or one that reads prompts and one that
/// decodes them: the master of their run, to which requests come. A stage that dies is started
/// again, and its requests go on.
class PipelineLoop final : public Engine {
 public:
  /// @param request all but what is online of it
  PipelineLoop(run::ExecuteRequest request, std::vector<serving::Replica> engines,
               std::function<void(News)> tell, bool records);

  void run(const std::function<void()>& on_ready) override;
  serving::Served take_record() override;

 private:
  std::vector<serving::EngineCore*> cores() override { return job_->cores(); }
  void came() override;
  bool take();
  void note();

  run::ExecuteRequest request_;
  std::vector<serving::Replica> engines_;
  run::Job* job_ = nullptr;
  std::function<void()> wake_ = {};
  serving::Log log_;
};

}  // namespace tessera::http
