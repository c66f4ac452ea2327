#pragma once

#include <memory>

#include "tessera/serving/scheduler.h"

namespace tessera::serving {

/// The schedulers of the engine, a file each.
std::unique_ptr<Scheduler> make_vllm_v1(const EngineOptions&, const BlockManager::Options&);
std::unique_ptr<Scheduler> make_vllm_v0(const EngineOptions&, const BlockManager::Options&);
std::unique_ptr<Scheduler> make_sarathi(const EngineOptions&, const BlockManager::Options&);
std::unique_ptr<Scheduler> make_sglang(const EngineOptions&, const BlockManager::Options&);
std::unique_ptr<Scheduler> make_orca(const EngineOptions&, const BlockManager::Options&);
std::unique_ptr<Scheduler> make_micro_batches(const EngineOptions&, const BlockManager::Options&);
std::unique_ptr<Scheduler> make_static(const EngineOptions&, const BlockManager::Options&);

}  // namespace tessera::serving
